// SPDX-License-Identifier: Apache-2.0

// Package sysfs reads and writes the attributes of a namespace's devices that have no netlink
// message.
package sysfs

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"

	"golang.org/x/sys/unix"

	"weir/internal/kernel/netns"
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
// namespace, of the caller's. A sysfs mount shows the devices of the network namespace it was
// mounted in, so each call mounts its own, in a mount namespace and on a thread of its own that end
// with it.
func Within(ns *netns.Namespace, do func(devices string) error) error {
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread has left its namespaces and ends with the goroutine
		err := enter(ns)
		if err == nil {
			err = do("/sys/class/net")
		}
		done <- err
	}()
	return <-done
}

func enter(ns *netns.Namespace) error {
	if ns != nil {
		if err := unix.Setns(ns.FD(), unix.CLONE_NEWNET); err != nil {
			return fmt.Errorf("enter namespace %s: %w", ns.Name, err)
		}
	}
	if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
		return fmt.Errorf("unshare mounts: %w", err)
	}
	// Nothing that is mounted here may be seen outside.
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("make mounts private: %w", err)
	}
	// Never read-only: all mounts of one network namespace share that, those of others too.
	if err := unix.Mount("sysfs", "/sys", "sysfs", 0, ""); err != nil {
		return fmt.Errorf("mount sysfs: %w", err)
	}
	return nil
}
