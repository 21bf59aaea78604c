// SPDX-License-Identifier: Apache-2.0

// Package routing reads and follows the forwarding state of a namespace: links, addresses,
// neighbours, routes and rules.
//
// It decodes one message at a time without reflection and reads a full table in about a second.
//
// Pitfalls:
//   - A dump interrupted by a change may lack objects: [Dump] restarts and passes [Restart] first.
//   - A follower that receives [Lost] has missed events (ENOBUFS, even with an active reader): dump
//     again and compare.
//   - The kernel removes IPv4 routes without an event if their device goes down or an address is
//     removed: read routes again after such a change.
package routing

import (
	"net/netip"
)

// Link holds the properties of a network device that affect forwarding.
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
	// Elsewhere reports that Parent is a device index in another namespace.
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

// Neighbor is an entry of the neighbour table.
type Neighbor struct {
	Link  int
	At    netip.Addr
	MAC   [6]byte
	State uint16 // NUD_*
}

// Valid reports whether the kernel sends to the neighbour without resolving it first.
func (n Neighbor) Valid() bool {
	const valid = 0x80 | 0x40 | 0x02 | 0x10 | 0x04 | 0x08 // permanent, noarp, reachable, probe, stale, delay
	return n.State&valid != 0 && n.MAC != [6]byte{}
}

// Stale reports whether the kernel would verify the neighbour at the next packet.
func (n Neighbor) Stale() bool { return n.State&0x04 != 0 }

// Hop is a next hop of a route.
type Hop struct {
	Link   int
	Via    netip.Addr // the zero value if the destination is on the link
	Weight int        // 1 to 256
	Dead   bool       // the kernel does not use it now
	// Encap reports that packets are encapsulated or changed.
	Encap bool
}

// Route is one entry of a table.
type Route struct {
	Table  uint32
	To     netip.Prefix
	From   netip.Prefix // sources of an IPv6 route; the zero value for all
	Metric uint32
	TOS    uint8
	Type   uint8 // RTN_*
	// Protocol is the origin of the route (RTPROT_*).
	Protocol uint8
	MTU      uint32 // of the route; 0 for none
	Locked   bool   // ip route's "mtu lock"
	Cloned   bool   // a cached exception beside the table
	// ObjectID is the id of its nexthop object; 0 for none.
	ObjectID uint32
	Hops     []Hop // reused by the next message: copy it to keep it
}

// Rule is one step of policy routing.
type Rule struct {
	IPv6     bool
	Priority uint32
	Action   uint8 // FR_ACT_*
	Table    uint32
	From, To netip.Prefix // the zero value matches all
	In, Out  string       // names of devices; "" for all
	// SuppressLength is the prefix length up to which matches are ignored; -1 for none.
	SuppressLength int
	Inverted       bool
	// Other names further matches of the rule; "" for none.
	Other string
}

// Kind is the kind of object of an event.
type Kind uint8

const (
	LinkEvent Kind = iota + 1
	AddressEvent
	NeighborEvent
	RouteEvent
	RuleEvent
	SettingEvent // a setting of a device, such as rp_filter, without its value
	ObjectEvent  // a nexthop object: its routes change without events of their own
	Restart      // of a dump: discard earlier objects
	Lost         // of a follower: events are missing
)

// Event reports an object that exists or was removed.
type Event struct {
	Kind    Kind
	Gone    bool
	Replace bool // of a route: it replaces the first one with the same prefix and metric
	Append  bool // of a route: added to those with the same prefix and metric
	Link    Link
	Address Address
	Neighbor
	Route
	Rule
}
