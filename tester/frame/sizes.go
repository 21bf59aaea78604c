// SPDX-License-Identifier: Apache-2.0

package frame

import (
	"slices"

	"weir/tester"
)

const (
	// MinSize and MaxSize bound frame sizes, FCS included.
	MinSize = 64
	MaxSize = 9000
	// MaxShares is the maximum number of sizes of a mix, MaxCycle that of frames until it repeats.
	MaxShares = 8
	MaxCycle  = 64
)

// IMIX returns the simple Internet mix of common testers: 7 frames of 64, 4 of 570 and 1 of 1518
// octets. RFC 6985 defines the notation but no such mix; some use 594 octets for the middle size.
func IMIX() []tester.SizeShare {
	return []tester.SizeShare{{Size: 64, Weight: 7}, {Size: 570, Weight: 4}, {Size: 1518, Weight: 1}}
}

// IMIX6 is IMIX with 88 octets for the smallest frame, the minimum for a stamp in IPv6 with a VLAN
// tag.
func IMIX6() []tester.SizeShare {
	mix := IMIX()
	mix[0].Size = 88
	return mix
}

// Cycle returns the send order of a mix as indices: each size by its weight, evenly spread (smooth
// weighted round robin).
func Cycle(shares []tester.SizeShare) []int {
	divisor, total := 0, 0
	for _, s := range shares {
		divisor = common(s.Weight, divisor)
	}
	weights := make([]int, len(shares))
	for i, s := range shares {
		weights[i] = 1
		if divisor > 0 {
			weights[i] = s.Weight / divisor
		}
		total += weights[i]
	}
	credit := make([]int, len(shares))
	var cycle []int
	for len(cycle) < total {
		for i, w := range weights {
			credit[i] += w
		}
		best := slices.Index(credit, slices.Max(credit))
		credit[best] -= total
		cycle = append(cycle, best)
	}
	return cycle
}

func common(a, b int) int {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}
