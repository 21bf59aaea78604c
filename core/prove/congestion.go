// SPDX-License-Identifier: Apache-2.0

package prove

import (
	"fmt"
	"os"
	"slices"
	"strings"
)

// congestion returns the congestion control of TCP flows to Weir's own peer if the user names none.
// BBR does not work on a path of some microseconds (docs/known-issues.md), so it is loss-based and
// available to every user: CUBIC, or Reno if the host restricts CUBIC to root.
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
