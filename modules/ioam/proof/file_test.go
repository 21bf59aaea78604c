// SPDX-License-Identifier: Apache-2.0

package proof

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"weir/internal/fault"
)

// The path of a proof may name any kind of file: reading it ends with an error that describes it.
func TestProofFilesAreRefused(t *testing.T) {
	folder := t.TempDir()
	large, pipe := filepath.Join(folder, "large"), filepath.Join(folder, "pipe")
	if err := os.WriteFile(large, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(large, 1<<40); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		"/dev/zero": "it is a device", pipe: "it is a pipe", folder: "it is a folder", large: "octets", filepath.Join(folder, "none"): "no such file",
	} {
		_, err := ReadProfiles(path)
		if err == nil || !strings.Contains(err.Error(), want) || fault.Of(err) != fault.Usage || fault.Advice(err) == "" {
			t.Errorf("%s: %v, advice %q; want %q", path, err, fault.Advice(err), want)
		}
	}
}
