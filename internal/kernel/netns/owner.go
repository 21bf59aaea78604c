// SPDX-License-Identifier: Apache-2.0

package netns

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// Foreign says whether the network namespace belongs to another user namespace than this process's
// (ioctl_ns(2)): then any user may have made it, with as many devices as he likes.
func (n *Namespace) Foreign() (bool, error) {
	owner, err := unix.IoctlRetInt(n.FD(), unix.NS_GET_USERNS)
	if errors.Is(err, unix.EPERM) { // one above this process's, or a kernel without user namespaces
		_, err := os.Stat("/proc/self/ns/user")
		return err == nil, nil
	}
	if err != nil {
		return false, fmt.Errorf("owner of a network namespace: %w", err)
	}
	defer func() { _ = unix.Close(owner) }()
	var its, own unix.Stat_t
	if err := errors.Join(unix.Fstat(owner, &its), unix.Stat("/proc/self/ns/user", &own)); err != nil {
		return false, fmt.Errorf("owner of a network namespace: %w", err)
	}
	return its.Dev != own.Dev || its.Ino != own.Ino, nil
}
