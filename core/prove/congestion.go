// SPDX-License-Identifier: Apache-2.0

package prove

import (
	"fmt"
	"os"
	"slices"
	"strings"
)

// congestion is what TCP flows to a peer of Weir's own use where nobody asks for something else. A
// path of some microseconds is no path that BBR is made for (docs/known-issues.md), so it is a
// loss-based one that every user may choose: CUBIC, or Reno where the host keeps CUBIC to root.
func congestion() (string, error) {
	const file = "/proc/sys/net/ipv4/tcp_allowed_congestion_control"
	allowed, err := os.ReadFile(file)
	if err != nil {
		return "", fmt.Errorf("read congestion controls: %w", err)
	}
	if slices.Contains(strings.Fields(string(allowed)), "cubic") {
		return "cubic", nil
	}
	return "reno", nil
}
