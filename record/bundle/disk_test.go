// SPDX-License-Identifier: Apache-2.0

package bundle_test

import (
	"fmt"
	"testing"

	"golang.org/x/sys/unix"

	"weir/kernel/testutil"
)

// smallDisk mounts a file system of that many bytes for this test alone.
func smallDisk(t *testing.T, size int) string {
	t.Helper()
	testutil.NeedRoot(t)
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, fmt.Sprintf("size=%d", size)); err != nil {
		t.Fatalf("mount a small tmpfs: %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, 0); err != nil {
			t.Error(err)
		}
	})
	return dir
}
