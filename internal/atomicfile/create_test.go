// SPDX-License-Identifier: Apache-2.0

package atomicfile

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"
)

func TestOneOfManyCreatesAFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a", "b", "c", "file")
	var made atomic.Int32
	var group sync.WaitGroup
	for i := range 20 {
		group.Go(func() {
			switch err := Create(path, 0o640, []byte(fmt.Sprint(i))); {
			case err == nil:
				made.Add(1)
			case !errors.Is(err, os.ErrExist):
				t.Error(err)
			}
		})
	}
	group.Wait()
	if made.Load() != 1 {
		t.Errorf("%d calls made the file, want 1", made.Load())
	}
	if left, err := os.ReadDir(filepath.Dir(path)); err != nil || len(left) != 1 {
		t.Errorf("%v (%v) in the folder, want one file", left, err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o640 {
		t.Errorf("%v (%v)", info, err)
	}
}

func TestAFileInThePlaceOfAFolderIsReported(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := WriteBytes(file, 0o600, nil); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{file, filepath.Join(file, "below")} {
		if err := MakeFolder(path); !errors.Is(err, unix.ENOTDIR) {
			t.Errorf("%s: error %v", path, err)
		}
	}
}
