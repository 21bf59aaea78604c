// SPDX-License-Identifier: Apache-2.0

// Package flower writes tc filters of kind flower for forwarding: matches on prefixes, tags and
// TTL, and actions that rewrite the link layer, decrement the TTL and redirect. It writes filters
// in batches.
//
// Pitfalls:
//   - One priority has no longest match: filters of different masks match in the order in which the
//     first filter of each mask was added.
//   - The action trap drops packets in software. There, Pass leaves them to the stack.
//   - An unshared action has per-CPU counters. Their allocation takes longer than the rest of the
//     rule. Rules that share an action share its counter.
//   - The action csum recomputes the header checksum, so a wrong checksum becomes correct.
package flower

import (
	"net/netip"
)

// Forward describes the forwarding of a packet.
type Forward struct {
	Device   int // of egress
	Src, Dst [6]byte
	// Pop removes the tag, Push adds one, Modify changes it; VLAN is the VLAN id.
	Pop, Push, Modify bool
	VLAN              uint16
}

// Rule is a filter at a device's ingress.
type Rule struct {
	Chain    uint32
	Priority uint16
	Handle   uint32
	IPv6     bool
	// Tagged rules match frames with the VLAN id VLAN, or with any tag if VLAN is 0.
	Tagged bool
	VLAN   uint16
	To     [6]byte      // destination address of the frame; zero for any
	Dst    netip.Prefix // the zero value and length 0 match all
	Src    netip.Prefix
	// Expiring matches a TTL or hop limit of 0 and 1.
	Expiring bool
	Protocol int // IP protocol; -1 for any
	// The rule has at most one of these actions; without one the stack gets the packet.
	Goto    uint32
	Forward *Forward
	// Guard, if not 0, runs before Goto: the descriptor of a sched_act program that returns
	// TC_ACT_PIPE to continue and TC_ACT_OK to leave the packet to the stack.
	Guard int
	// Action is the index of a shared action, which must do the same; 0 is an unshared action. See
	// [Conn.Share].
	Action uint32
}

// Flags of a filter (TCA_CLS_FLAGS_*).
const (
	SkipHardware uint32 = 1
	SkipSoftware uint32 = 2
)
