// SPDX-License-Identifier: Apache-2.0

// Package sysfs reads and writes the attributes of a namespace's devices that have no netlink
// message.
package sysfs

import (
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"weir/kernel/netns"
)

// Attribute is a file below /sys/class/net/DEVICE and its new content.
type Attribute struct {
	Device, Name, Value string
}

// Set writes the attributes in the namespace. If the kernel lacks one, the error is os.ErrNotExist.
func Set(ns *netns.Namespace, attributes ...Attribute) error {
	err := Within(ns, func(devices string) error {
		for _, a := range attributes {
			if err := os.WriteFile(filepath.Join(devices, a.Device, a.Name), []byte(a.Value), 0); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("write device attributes: %w", err)
	}
	return nil
}

// Within calls do with /sys/class/net of the namespace; nil is the caller's. The folder is valid
// until do returns. A sysfs mount shows the devices of the network namespace in which it was
// created, so each call creates a detached mount: it is invisible, and avoids a copy of the mount
// table, in which a lab has an entry for each namespace.
func Within(ns *netns.Namespace, do func(devices string) error) error {
	mount, err := mountIn(ns)
	if err != nil {
		return fmt.Errorf("mount sysfs: %w", err)
	}
	defer func() { _ = unix.Close(mount) }()
	return do(fmt.Sprintf("/proc/self/fd/%d/class/net", mount))
}

// mountIn creates a sysfs mount in the namespace. It is never read-only, because all sysfs mounts
// of a network namespace share that flag.
func mountIn(ns *netns.Namespace) (mount int, err error) {
	err = ns.Do(func() error {
		system, err := unix.Fsopen("sysfs", unix.FSOPEN_CLOEXEC)
		if err != nil {
			return err
		}
		defer func() { _ = unix.Close(system) }()
		if err := unix.FsconfigCreate(system); err != nil {
			return err
		}
		mount, err = unix.Fsmount(system, unix.FSMOUNT_CLOEXEC, 0)
		return err
	})
	return mount, err
}
