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

// Few keeps visits of network namespaces from taking as long as any user likes: of Foreign ones it
// admits the first Most, and counts the others in Left. The zero value admits none of them.
type Few struct{ Most, Left int }

// Of is a visit of those that are admitted. nil is the namespace that this process is in.
func (f *Few) Of(visit func(*Namespace) error) func(*Namespace) error {
	return func(ns *Namespace) error {
		if ns == nil {
			return visit(ns)
		}
		foreign, err := ns.Foreign()
		switch {
		case err != nil:
			return err
		case !foreign:
		case f.Most > 0:
			f.Most--
		default:
			f.Left++
			return nil
		}
		return visit(ns)
	}
}
