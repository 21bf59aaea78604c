// SPDX-License-Identifier: Apache-2.0

package netstate

import (
	"errors"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"weir/internal/kernel/ethtool"
	"weir/internal/kernel/netns"
	"weir/internal/kernel/sysfs"
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

// readAttributes reads them.
func readAttributes(ns *netns.Namespace, state State) error {
	return sysfs.Within(ns, func(devices string) error { return attributesBelow(devices, state) })
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
