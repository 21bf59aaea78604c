// SPDX-License-Identifier: Apache-2.0

package link

import (
	"bufio"
	"fmt"
	"os"
	"strconv"
	"strings"

	"weir/internal/kernel/ethtool"
	"weir/internal/kernel/netns"
)

// Drops are the frames that one end of a veth pair has lost since it was made.
type Drops struct {
	Receive  uint64 // arrived, and not taken by the stack or the XDP program's target: rx_queue_*_drops
	Transmit uint64 // sent, and not taken by the other end: tx_dropped
	XDP      uint64 // dropped by the XDP program's own decision: rx_queue_*_xdp_drops
}

// ReadDrops reads a veth device's own account of lost frames. An overloaded emulator's losses
// appear here and nowhere else, since the frames never reached it.
func ReadDrops(ns *netns.Namespace, dev string) (Drops, error) {
	stats, err := ethtool.Stats(ns, dev)
	if err != nil {
		return Drops{}, err
	}
	var drops Drops
	for name, value := range stats {
		if !strings.HasPrefix(name, "rx_queue_") {
			continue
		}
		switch {
		case strings.HasSuffix(name, "_xdp_drops"):
			drops.XDP += value
		case strings.HasSuffix(name, "_drops"):
			drops.Receive += value
		}
	}
	if drops.Transmit, err = transmitDrops(ns, dev); err != nil {
		return Drops{}, fmt.Errorf("read dropped frames of %s: %w", dev, err)
	}
	return drops, nil
}

// transmitDrops reads tx_dropped from /proc/net/dev of the namespace (proc_pid_net(5)).
func transmitDrops(ns *netns.Namespace, dev string) (value uint64, err error) {
	const column = 8 + 3 // behind the eight receive columns: bytes, packets, errs, drop
	read := func() error {
		file, err := os.Open("/proc/thread-self/net/dev")
		if err != nil {
			return err
		}
		defer func() { _ = file.Close() }()
		for lines := bufio.NewScanner(file); lines.Scan(); {
			name, rest, found := strings.Cut(lines.Text(), ":")
			fields := strings.Fields(rest)
			if !found || strings.TrimSpace(name) != dev || len(fields) <= column {
				continue
			}
			value, err = strconv.ParseUint(fields[column], 10, 64)
			return err
		}
		return os.ErrNotExist
	}
	err = ns.Do(read)
	return value, err
}
