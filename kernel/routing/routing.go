// SPDX-License-Identifier: Apache-2.0

// Package routing reads what a namespace's kernel forwards by - links, addresses, neighbours,
// routes and rules - and follows what changes of it.
//
// Everything is handed over message by message and decoded from the kernel's octets without
// reflection: a full table is read in about a second.
//
// What bites:
//   - A dump that was interrupted by a change may lack objects: [Dump] begins again, and hands over
//     [Restart] first.
//   - A follower that is told [Lost] has missed something (ENOBUFS comes even to an active reader):
//     dump again, and compare.
//   - The kernel takes IPv4 routes away without a word when their device goes down or an address
//     goes: read routes again after such a change.
package routing

import (
	"net/netip"
)

// Link is a network device as far as forwarding goes.
type Link struct {
	Index  int
	Name   string
	Kind   string // "vlan", "bond", "veth"; "" for most hardware
	MAC    [6]byte
	MTU    uint32
	MTU6   uint32 // of IPv6; 0 without IPv6
	Up     bool   // administratively
	Lower  bool   // has a carrier
	Master int    // index of its bond, bridge or VRF; 0 for none
	Parent int    // index of the device below; 0 for none
	// Elsewhere says that Parent is the index of a device of another namespace.
	Elsewhere bool
	VLAN      uint16 // of kind vlan
	Protocol  uint16 // EtherType of a vlan's tag
	Ethernet  bool
	Loopback  bool
	Forward4  bool  // net.ipv4.conf.DEV.forwarding
	RPFilter  uint8 // net.ipv4.conf.DEV.rp_filter
}

// Address is one of the namespace's own.
type Address struct {
	Link  int
	At    netip.Prefix // the address and the length of its network
	Local netip.Addr
}

// Neighbor is what is known of an address on a link.
type Neighbor struct {
	Link  int
	At    netip.Addr
	MAC   [6]byte
	State uint16 // NUD_*
}

// Valid says whether the kernel sends to it without asking first.
func (n Neighbor) Valid() bool {
	const valid = 0x80 | 0x40 | 0x02 | 0x10 | 0x04 | 0x08 // permanent, noarp, reachable, probe, stale, delay
	return n.State&valid != 0 && n.MAC != [6]byte{}
}

// Stale says whether the kernel would ask whether it is still there when it sends to it.
func (n Neighbor) Stale() bool { return n.State&0x04 != 0 }

// Hop is one way of a route.
type Hop struct {
	Link   int
	Via    netip.Addr // the zero value where the destination is on the link
	Weight int        // 1 to 256
	Dead   bool       // the kernel does not use it now
	// Encap says that packets are encapsulated or changed on the way.
	Encap bool
}

// Route is one entry of a table.
type Route struct {
	Table  uint32
	To     netip.Prefix
	Metric uint32
	TOS    uint8
	Type   uint8 // RTN_*
	// Protocol is who has made it (RTPROT_*).
	Protocol uint8
	MTU      uint32 // of the route; 0 for none
	Locked   bool   // ip route's "mtu lock"
	Cloned   bool   // an exception that the kernel keeps beside the table
	// ObjectID is the nexthop object that it goes by; 0 for none.
	ObjectID uint32
	Hops     []Hop // may be used again by the next message: copy what is kept
}

// Rule is one step of policy routing.
type Rule struct {
	IPv6     bool
	Priority uint32
	Action   uint8 // FR_ACT_*
	Table    uint32
	From, To netip.Prefix // the zero value matches all
	In, Out  string       // names of devices; "" for all
	// SuppressLength is the length up to which a match does not count; -1 for none.
	SuppressLength int
	Inverted       bool
	// Other names what else the rule matches on; "" for nothing.
	Other string
}

// Kind says what an event is about.
type Kind uint8

const (
	LinkEvent Kind = iota + 1
	AddressEvent
	NeighborEvent
	RouteEvent
	RuleEvent
	SettingEvent // a setting of a device, as rp_filter, that is not told
	ObjectEvent  // a nexthop object: routes that use it change without a word
	Restart      // of a dump: forget what it has handed over
	Lost         // of a follower: events are missing
)

// Event is one object that is there, or has gone.
type Event struct {
	Kind    Kind
	Gone    bool
	Replace bool // of a route: it takes the place of the first one of the same prefix and metric
	Append  bool // of a route: it joins those of the same prefix and metric
	Link    Link
	Address Address
	Neighbor
	Route
	Rule
}
