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

// Attribute is one file below /sys/class/net/DEVICE and the text to write into it.
type Attribute struct {
	Device, Name, Value string
}

// Set writes the attributes in the namespace. A kernel without an attribute gives an error that is
// os.ErrNotExist.
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

// Within calls do with the folder that has one of each device of the namespace; without a
// namespace, of the caller's. The folder is gone when do has returned. A mount of sysfs shows the
// devices of the network namespace in which it was made, so each call makes its own, which is
// attached nowhere: nobody sees it, and the machine's mounts, of which a lab has one for each of
// its namespaces, need not be copied.
func Within(ns *netns.Namespace, do func(devices string) error) error {
	mount, err := mountIn(ns)
	if err != nil {
		return fmt.Errorf("mount sysfs: %w", err)
	}
	defer func() { _ = unix.Close(mount) }()
	return do(fmt.Sprintf("/proc/self/fd/%d/class/net", mount))
}

// mountIn makes a mount of sysfs in the namespace. It is never read-only: all mounts of one network
// namespace share that, those of others too.
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
