// SPDX-License-Identifier: Apache-2.0

package netstate

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"golang.org/x/sys/unix"

	"weir/internal/kernel/ethtool"
	"weir/internal/kernel/netns"
)

// offloads reads the features of every device.
func (r *reader) offloads() error {
	for _, name := range r.names {
		features, err := ethtool.Kernel(name)
		if errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.ENODEV) {
			continue
		}
		if err != nil {
			return err
		}
		for feature, on := range features {
			value := "off"
			if on {
				value = "on"
			}
			r.state["offload "+feature+" of "+name] = value
		}
	}
	return nil
}

// queueAttributes are files below /sys/class/net/DEVICE that decide how its frames are processed.
var queueAttributes = []string{"threaded", "gro_flush_timeout", "napi_defer_hard_irqs",
	"queues/rx-*/rps_cpus", "queues/rx-*/rps_flow_cnt", "queues/tx-*/xps_cpus", "queues/tx-*/tx_maxrate"}

// readAttributes reads them. A sysfs mount shows the devices of the namespace it was mounted in, so
// it mounts its own, in a mount namespace and on a thread that end with it.
func readAttributes(ns *netns.Namespace, state State) error {
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread has left its namespaces and ends with the goroutine
		done <- func() error {
			if ns != nil {
				if err := unix.Setns(ns.FD(), unix.CLONE_NEWNET); err != nil {
					return fmt.Errorf("enter namespace: %w", err)
				}
			}
			if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
				return fmt.Errorf("unshare mounts: %w", err)
			}
			if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
				return fmt.Errorf("make mounts private: %w", err)
			}
			if err := unix.Mount("sysfs", "/sys", "sysfs", unix.MS_RDONLY, ""); err != nil {
				return fmt.Errorf("mount sysfs: %w", err)
			}
			return attributesBelow("/sys/class/net", state)
		}()
	}()
	return <-done
}

func attributesBelow(root string, state State) error {
	for _, pattern := range queueAttributes {
		files, err := filepath.Glob(filepath.Join(root, "*", pattern))
		if err != nil {
			return err
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				continue // a device without it says so with an error
			}
			device, rest, _ := strings.Cut(strings.TrimPrefix(file, root+"/"), "/")
			state["device "+device+": "+rest] = strings.TrimSpace(string(text))
		}
	}
	return nil
}
