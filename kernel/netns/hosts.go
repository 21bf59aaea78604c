// SPDX-License-Identifier: Apache-2.0

package netns

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// etcHosts is where the C library and Go look names up.
const etcHosts = "/etc/hosts"

// ReplaceHosts gives the calling thread mounts of its own, in which /etc/hosts is the file at path;
// what it starts sees the same. Everything else stays where it is, what is mounted later included.
// It is for a thread that starts a process, or becomes one, and ends with it.
func ReplaceHosts(path string) error {
	if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
		return fmt.Errorf("replace %s: unshare mounts: %w", etcHosts, err)
	}
	// Without this the mount below would show in every process of the machine.
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_SLAVE, ""); err != nil {
		return fmt.Errorf("replace %s: keep mounts private: %w", etcHosts, err)
	}
	if err := unix.Mount(path, etcHosts, "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("replace %s by %s: %w", etcHosts, path, err)
	}
	return nil
}
