// SPDX-License-Identifier: Apache-2.0

package forwarder

import (
	"bufio"
	"fmt"
	"os"
	"strconv"
	"strings"

	"weir/kernel/netns"
)

// transmitDrops returns the number of frames that a device should have sent and dropped
// (tx_dropped, from proc_pid_net(5)'s dev).
func transmitDrops(ns *netns.Namespace, device string) (dropped uint64, err error) {
	err = ns.Do(func() error {
		file, err := os.Open("/proc/thread-self/net/dev")
		if err != nil {
			return err
		}
		defer func() { _ = file.Close() }()
		for lines := bufio.NewScanner(file); lines.Scan(); {
			if name, counters, found := strings.Cut(lines.Text(), ":"); found && strings.TrimSpace(name) == device {
				dropped, err = parseDrops(counters)
				return err
			}
		}
		return os.ErrNotExist
	})
	if err != nil {
		return 0, fmt.Errorf("read dropped frames of %s: %w", device, err)
	}
	return dropped, nil
}

// parseDrops finds tx_dropped behind the eight receive columns, bytes, packets and errs.
func parseDrops(counters string) (uint64, error) {
	const column = 8 + 3
	fields := strings.Fields(counters)
	if len(fields) <= column {
		return 0, fmt.Errorf("a line of %d columns: %q", len(fields), counters)
	}
	return strconv.ParseUint(fields[column], 10, 64)
}
