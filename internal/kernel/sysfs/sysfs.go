// SPDX-License-Identifier: Apache-2.0

// Package sysfs writes the attributes of a namespace's devices that have no netlink message.
//
// A sysfs mount shows the devices of the network namespace it was mounted in, so each call mounts
// its own, in a mount namespace and on a thread of its own that end with it.
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
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread has left its namespaces and ends with the goroutine
		done <- set(ns, attributes)
	}()
	return <-done
}

func set(ns *netns.Namespace, attributes []Attribute) error {
	if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
		return fmt.Errorf("write device attributes: unshare mounts: %w", err)
	}
	if err := unix.Setns(ns.FD(), unix.CLONE_NEWNET); err != nil {
		return fmt.Errorf("write device attributes: enter namespace %s: %w", ns.Name, err)
	}
	// Nothing that is mounted here may be seen outside.
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("write device attributes: make mounts private: %w", err)
	}
	if err := unix.Mount("sysfs", "/sys", "sysfs", 0, ""); err != nil {
		return fmt.Errorf("write device attributes: mount sysfs: %w", err)
	}
	for _, a := range attributes {
		if err := os.WriteFile(filepath.Join("/sys/class/net", a.Device, a.Name), []byte(a.Value), 0); err != nil {
			return fmt.Errorf("write device attributes: %w", err)
		}
	}
	return nil
}
