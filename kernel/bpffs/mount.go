// SPDX-License-Identifier: Apache-2.0

package bpffs

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// standard is the usual mount point of the BPF file system.
const standard = "/sys/fs/bpf"

// Mount mounts a BPF file system with mode 0700 at /sys/fs/bpf if dir is below it, none is mounted
// there and this process is root. It reports whether it did. In other cases it changes nothing:
// [CanPin] then returns the reason.
func Mount(dir string) (mounted bool, err error) {
	if !Mountable(dir) {
		return false, nil
	}
	if err := unix.Mount("bpf", standard, "bpf", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, "mode=700"); err != nil {
		return false, Fault(fmt.Errorf("mount a BPF file system at %s: %w", standard, err))
	}
	return true, nil
}

// Mountable reports whether Mount would mount.
func Mountable(dir string) bool {
	dir = filepath.Clean(dir)
	if os.Geteuid() != 0 || dir != standard && !strings.HasPrefix(dir, standard+"/") {
		return false
	}
	var found unix.Statfs_t
	return unix.Statfs(standard, &found) == nil && found.Type == unix.SYSFS_MAGIC
}
