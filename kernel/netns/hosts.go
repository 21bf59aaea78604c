// SPDX-License-Identifier: Apache-2.0

package netns

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// etcHosts is the hosts file of the C library and Go.
const etcHosts = "/etc/hosts"

// ReplaceHosts moves the calling thread into a new mount namespace with the file at path as
// /etc/hosts. Its child processes inherit it. Other mounts, including later ones, stay visible.
// Call it on a thread that starts a process and ends with it.
func ReplaceHosts(path string) error {
	if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
		return fmt.Errorf("replace %s: unshare mounts: %w", etcHosts, err)
	}
	// Without this the mount below would appear in every process.
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_SLAVE, ""); err != nil {
		return fmt.Errorf("replace %s: keep mounts private: %w", etcHosts, err)
	}
	if err := unix.Mount(path, etcHosts, "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("replace %s by %s: %w", etcHosts, path, err)
	}
	return nil
}
