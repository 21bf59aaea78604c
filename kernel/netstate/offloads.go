// SPDX-License-Identifier: Apache-2.0

package netstate

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"weir/kernel/ethtool"
	"weir/kernel/netns"
	"weir/kernel/sysfs"
)

// offloads reads the features of every device.
func (r *reader) offloads() error {
	all, err := ethtool.Kernel(slices.Collect(maps.Values(r.names)))
	if err != nil {
		return err
	}
	for device, features := range all {
		for feature, on := range features {
			value := "off"
			if on {
				value = "on"
			}
			r.state[offloadPrefix+feature+" of "+device] = value
		}
	}
	return nil
}

// Files below /sys/class/net/DEVICE that affect the processing of frames: those of the device, and
// those of its queues by prefix.
var (
	deviceAttributes = []string{"threaded", "gro_flush_timeout", "napi_defer_hard_irqs"}
	queueAttributes  = map[string][]string{"rx-": {"rps_cpus", "rps_flow_cnt"}, "tx-": {"xps_cpus", "tx_maxrate"}}
)

// readAttributes reads them.
func readAttributes(ns *netns.Namespace, state State) error {
	return sysfs.Within(ns, func(root string) error {
		devices, err := os.ReadDir(root)
		if err != nil {
			return err
		}
		buffer := make([]byte, 1<<12)
		for _, device := range devices {
			attributesOf(root, device.Name(), state, buffer)
		}
		return nil
	})
}

// attributesOf reads the attributes of a device. A device without one returns an error for the
// file.
func attributesOf(root, device string, state State, buffer []byte) {
	read := func(name string) {
		if n, err := readSetting(unix.AT_FDCWD, filepath.Join(root, device, name), buffer); err == nil {
			state["device "+device+": "+name] = strings.TrimSpace(string(buffer[:n]))
		}
	}
	for _, name := range deviceAttributes {
		read(name)
	}
	queues, err := os.ReadDir(filepath.Join(root, device, "queues"))
	if err != nil {
		return
	}
	for _, queue := range queues {
		for beginning, names := range queueAttributes {
			if !strings.HasPrefix(queue.Name(), beginning) {
				continue
			}
			for _, name := range names {
				read("queues/" + queue.Name() + "/" + name)
			}
		}
	}
}
