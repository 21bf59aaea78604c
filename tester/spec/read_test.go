// SPDX-License-Identifier: Apache-2.0

package spec_test

import (
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"weir/internal/fault"
	"weir/tester/spec"
)

// None of these hangs or is read without end.
func TestWhatIsNoSpecificationFile(t *testing.T) {
	fifo := filepath.Join(t.TempDir(), "fifo")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{fifo: "it is a pipe", "/dev/zero": "it is a device", fifo + "x": "no such file"} {
		t.Run(path, func(t *testing.T) {
			if _, err := spec.Read(path); err == nil || !strings.Contains(err.Error(), want) || fault.Of(err) != fault.Usage || fault.Advice(err) == "" {
				t.Errorf("%s: %v", path, err)
			}
		})
	}
}
