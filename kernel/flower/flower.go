// SPDX-License-Identifier: Apache-2.0

// Package flower writes filters of kind flower with what forwarding takes: prefixes, tags, TTL, and
// actions that rewrite the link layer, count the TTL down and redirect. They go to the kernel many
// at a time.
//
// What bites:
//   - Within one priority there is no longest match: filters of different masks are asked in the
//     order in which the first of each mask came.
//   - The action trap takes packets away in software: there, Pass leaves them to the stack.
//   - An action of a rule's own has counters for each processor, which take the kernel longer to
//     make than the rest of the rule. Rules that share one are counted together.
//   - The header checksum is computed anew (csum), so that a wrong one becomes right.
package flower

import (
	"net/netip"
)

// Forward is what becomes of a packet that is forwarded.
type Forward struct {
	Device   int // that it leaves by
	Src, Dst [6]byte
	// Pop takes the tag away, Push puts one before the packet, Modify changes it; VLAN is the tag's
	// number.
	Pop, Push, Modify bool
	VLAN              uint16
}

// Rule is one filter at a device's ingress.
type Rule struct {
	Chain    uint32
	Priority uint16
	Handle   uint32
	IPv6     bool
	// Tagged rules match frames with a tag, of the number VLAN or, where that is 0, any.
	Tagged bool
	VLAN   uint16
	To     [6]byte      // destination of the frame; zero for any
	Dst    netip.Prefix // the zero value, and length 0, match all
	Src    netip.Prefix
	// Expiring matches a TTL or hop limit of 0 and 1.
	Expiring bool
	Protocol int // of IP, -1 for any
	// One of these is done; none leaves the packet to the stack.
	Goto    uint32
	Forward *Forward
	// Guard is asked before Goto where it is not 0: the descriptor of a program of kind sched_act
	// that returns TC_ACT_PIPE to go on, and TC_ACT_OK to leave the packet to the stack.
	Guard int
	// Action is the number of the action that other rules have as well; 0 is one of its own. It has
	// to do the same: see [Conn.Share].
	Action uint32
}

// Flags of a filter (TCA_CLS_FLAGS_*).
const (
	SkipHardware uint32 = 1
	SkipSoftware uint32 = 2
)
