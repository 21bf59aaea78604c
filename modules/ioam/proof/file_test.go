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

// What a proof's name leads to may be anything: reading it ends, and says what is wrong.
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
