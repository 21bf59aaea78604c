// SPDX-License-Identifier: Apache-2.0

package testutil

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// Become changes the calling thread to another user with the given capabilities only.
func Become(user int, rights []int) error {
	if err := unix.Prctl(unix.PR_SET_KEEPCAPS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("keep capabilities: %w", err)
	}
	// Package unix would change all threads.
	for _, call := range []uintptr{unix.SYS_SETRESGID, unix.SYS_SETRESUID} {
		if _, _, errno := unix.RawSyscall(call, uintptr(user), uintptr(user), uintptr(user)); errno != 0 {
			return fmt.Errorf("become user %d: %w", user, errno)
		}
	}
	var set [2]unix.CapUserData
	for _, right := range rights {
		set[right/32].Effective |= 1 << (right % 32)
		set[right/32].Permitted |= 1 << (right % 32)
	}
	if err := unix.Capset(&unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}, &set[0]); err != nil {
		return fmt.Errorf("set capabilities: %w", err)
	}
	return nil
}
