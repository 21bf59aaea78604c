// SPDX-License-Identifier: Apache-2.0

package tc

import (
	"slices"
	"testing"
)

// mirred is an action as dumped by the kernel (struct tc_mirred).
func mirred(kind string, what, to uint32) []byte {
	parms := attribute(nil, 2, words(1, 0, 4, 1, 1, what, to))
	return attribute(attribute(nil, 1, []byte(kind+"\x00")), 2, parms)
}

func TestRedirectsAreRead(t *testing.T) {
	actions := attribute(attribute(nil, 1, mirred("mirred", 1, 7)), 2, mirred("mirred", 4, 9))
	actions = attribute(actions, 3, mirred("gact", 1, 5))
	for kind, list := range map[string]uint16{"u32": 7, "fw": 4, "flower": 3, "matchall": 2, "basic": 3, "bpf": 1} {
		filter := Raw{Kind: kind, Options: attribute(nil, list, actions)}
		if got, want := filter.Redirects(), []Redirect{{To: 7}, {To: 9, Received: true, Copy: true}}; !slices.Equal(got, want) {
			t.Errorf("%s: %+v, want %+v", kind, got, want)
		}
	}
	whole := attribute(nil, 2, attribute(nil, 1, mirred("mirred", 1, 7)))
	for end := range len(whole) { // truncated anywhere
		if got := (Raw{Kind: "matchall", Options: whole[:end]}).Redirects(); len(got) > 0 {
			t.Errorf("of %d octets: %+v", end, got)
		}
	}
}

func TestWhatTheDeviceDoesIsRead(t *testing.T) {
	const skipSoftware, inHW, notInHW = 2, 4, 8
	for flags, want := range map[uint32]bool{0: false, notInHW: false, inHW: true, inHW | skipSoftware: true, skipSoftware: false} {
		filter := Raw{Kind: "flower", Options: attribute(nil, flowerFlags, words(flags))}
		if filter.InHardware() != want {
			t.Errorf("flags %#x: in hardware: %t", flags, !want)
		}
	}
}
