// SPDX-License-Identifier: Apache-2.0

package bpffs

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// Private is a BPF file system that is mounted nowhere. Pins below [Place] end with the file, and
// so with the process, even after kill -9. It needs Linux 5.2.
func Private() (*os.File, error) {
	system, err := unix.Fsopen("bpf", unix.FSOPEN_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("make a BPF file system: %w", err)
	}
	defer func() { _ = unix.Close(system) }()
	if err := unix.FsconfigCreate(system); err != nil {
		return nil, fmt.Errorf("make a BPF file system: %w", err)
	}
	mount, err := unix.Fsmount(system, unix.FSMOUNT_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("make a BPF file system: %w", err)
	}
	return os.NewFile(uintptr(mount), "BPF file system"), nil
}

// Place returns the path of a private file system, valid in this process only.
func Place(private *os.File) string { return fmt.Sprintf("/proc/self/fd/%d", private.Fd()) }
