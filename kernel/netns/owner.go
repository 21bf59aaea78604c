// SPDX-License-Identifier: Apache-2.0

package netns

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// Foreign reports whether the network namespace belongs to another user namespace than this
// process's (ioctl_ns(2)): any user may have created it, with any number of devices.
func (n *Namespace) Foreign() (bool, error) {
	owner, err := unix.IoctlRetInt(n.FD(), unix.NS_GET_USERNS)
	if errors.Is(err, unix.EPERM) { // a parent of this process's, or a kernel without user namespaces
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

// Few bounds how many user-created namespaces are visited (denial of service): it admits the first
// Most [Foreign] ones and counts the others in Left. The zero value admits none.
type Few struct{ Most, Left int }

// Of returns a visitor of the admitted namespaces. nil is the namespace of this process.
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
