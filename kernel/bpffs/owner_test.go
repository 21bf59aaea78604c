// SPDX-License-Identifier: Apache-2.0

package bpffs

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"weir/internal/fault"
	"weir/kernel/testutil"
)

// Clean removes folders of other users with their content, and keeps root's own, without write
// access for others.
func TestCleanRemovesWhatIsSomebodyElses(t *testing.T) {
	testutil.NeedRoot(t)
	dir := t.TempDir()
	for _, folder := range []string{"own/inner/his/deep", "his/deep"} {
		if err := os.MkdirAll(filepath.Join(dir, folder), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	at := func(path string) string { return filepath.Join(dir, path) }
	err := errors.Join(os.Chmod(at("own/inner"), 0o777), os.Chown(at("own/inner/his"), 4711, 0), os.Chown(at("his"), 4711, 0),
		os.WriteFile(at("own/pin"), nil, 0o600), os.WriteFile(at("own/fake"), nil, 0o600), os.Chown(at("own/fake"), 4711, 0),
		os.Symlink("/", at("own/link")), os.Lchown(at("own/link"), 4711, 0))
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(Clean(dir), Clean(at("missing"))); err != nil {
		t.Fatal(err)
	}
	left := map[string]bool{}
	for _, path := range []string{"own/inner", "own/pin", "own/inner/his", "his", "own/fake", "own/link"} {
		_, err := os.Lstat(at(path))
		left[path] = err == nil
	}
	for path, there := range left {
		if want := path == "own/inner" || path == "own/pin"; there != want {
			t.Errorf("%s is there: %t", path, there)
		}
	}
	if info, err := os.Stat(at("own/inner")); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("own folder: %v, %v", info.Mode(), err)
	}
	if err := Safe(at("own/inner")); err != nil {
		t.Error(err)
	}
}

// Changing the owner of a folder would keep the other user's entries.
func TestAFolderOfAStrangerIsToBeRemoved(t *testing.T) {
	testutil.NeedRoot(t)
	dir := filepath.Join(t.TempDir(), "weir")
	if err := errors.Join(os.Mkdir(dir, 0o700), os.Chown(dir, 4711, 0)); err != nil {
		t.Fatal(err)
	}
	if advice := fault.Advice(Safe(dir)); !strings.Contains(advice, "rm -r "+dir) || strings.Contains(advice, "chown") {
		t.Errorf("the folder itself: %q", advice)
	}
	if advice := fault.Advice(Safe(filepath.Join(dir, "cc"))); strings.Contains(advice, "rm -r") || !strings.Contains(advice, "chown root "+dir) {
		t.Errorf("one above: %q", advice)
	}
}
