// SPDX-License-Identifier: Apache-2.0

package link

import (
	"bufio"
	"fmt"
	"os"
	"strconv"
	"strings"

	"weir/kernel/ethtool"
	"weir/kernel/netns"
)

// Drops are the frames that one end of a veth pair has lost since it was made.
type Drops struct {
	Receive  uint64 // received, but not accepted by the stack or the XDP target: rx_queue_*_drops
	Transmit uint64 // sent, but not accepted by the other end: tx_dropped
	XDP      uint64 // dropped by the XDP program's own decision: rx_queue_*_xdp_drops
}

// ReadDrops reads a veth device's own account of lost frames. An overloaded emulator's losses
// appear here and nowhere else, since the frames never reached it.
func ReadDrops(ns *netns.Namespace, dev string) (Drops, error) {
	drops, err := ReadAllDrops(ns, []string{dev})
	if err != nil {
		return Drops{}, err
	}
	return drops[0], nil
}

// ReadAllDrops is [ReadDrops] of several devices of a namespace, in their order.
func ReadAllDrops(ns *netns.Namespace, devs []string) (all []Drops, err error) {
	stats, err := ethtool.StatsOf(ns, devs)
	if err != nil {
		return nil, err
	}
	sent, err := transmitDrops(ns)
	if err != nil {
		return nil, fmt.Errorf("read dropped frames: %w", err)
	}
	for i, dev := range devs {
		drops, known := Drops{}, false
		if drops.Transmit, known = sent[dev]; !known {
			return nil, fmt.Errorf("read dropped frames of %s: %w", dev, os.ErrNotExist)
		}
		drops.addReceived(stats[i])
		all = append(all, drops)
	}
	return all, nil
}

func (d *Drops) addReceived(stats map[string]uint64) {
	for name, value := range stats {
		if !strings.HasPrefix(name, "rx_queue_") {
			continue
		}
		switch {
		case strings.HasSuffix(name, "_xdp_drops"):
			d.XDP += value
		case strings.HasSuffix(name, "_drops"):
			d.Receive += value
		}
	}
}

// transmitDrops reads tx_dropped of all devices from /proc/net/dev of the namespace
// (proc_pid_net(5)).
func transmitDrops(ns *netns.Namespace) (all map[string]uint64, err error) {
	const column = 8 + 3 // behind the eight receive columns: bytes, packets, errs, drop
	all = map[string]uint64{}
	err = ns.Do(func() error {
		file, err := os.Open("/proc/thread-self/net/dev")
		if err != nil {
			return err
		}
		defer func() { _ = file.Close() }()
		lines := bufio.NewScanner(file)
		for lines.Scan() {
			name, rest, found := strings.Cut(lines.Text(), ":")
			fields := strings.Fields(rest)
			if !found || len(fields) <= column {
				continue
			}
			if all[strings.TrimSpace(name)], err = strconv.ParseUint(fields[column], 10, 64); err != nil {
				return err
			}
		}
		return lines.Err()
	})
	return all, err
}
