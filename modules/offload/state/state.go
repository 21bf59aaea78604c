// SPDX-License-Identifier: Apache-2.0

// Package state models what a Linux router forwards by: links, addresses, neighbours, routing
// tables and rules. It is pure, and has a file form, so that a router can be studied elsewhere.
//
// What bites: a State is not safe for concurrent use, and routes name their hops by a number
// ([Group]) that means something in their State alone.
package state

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// Types of routes (RTN_*); all others than Unicast are the CPU's.
const (
	Unicast   uint8 = 1
	Local     uint8 = 2
	Broadcast uint8 = 3
	Multicast uint8 = 5
	Throw     uint8 = 9
)

// Tables that every kernel has.
const (
	DefaultTable uint32 = 253
	MainTable    uint32 = 254
	LocalTable   uint32 = 255
)

// MAC is a link-layer address.
type MAC [6]byte

func (m MAC) String() string {
	return fmt.Sprintf("%02x:%02x:%02x:%02x:%02x:%02x", m[0], m[1], m[2], m[3], m[4], m[5])
}

// Link is a network device.
type Link struct {
	Index  int
	Name   string
	Kind   string // "vlan", "bond", "veth"; "" for most hardware
	MAC    MAC
	MTU    int
	MTU6   int // of IPv6; 0 without
	Up     bool
	Lower  bool // it has a carrier
	Master int  // index of its bond, bridge or VRF; 0 for none
	Parent int  // index of the device below; 0 for none
	VLAN   int  // of kind vlan
	// Protocol is the EtherType of a vlan's tag.
	Protocol  int
	Elsewhere bool // Parent is of another namespace
	Ethernet  bool
	Loopback  bool
	Forward4  bool
	RPFilter  int // of the device alone; see [Host]
}

// Host are settings of the whole namespace.
type Host struct {
	Forward6  bool // net.ipv6.conf.all.forwarding
	RPFilter  int  // net.ipv4.conf.all.rp_filter; the larger of it and the link's counts
	MultiHash int  // net.ipv4.fib_multipath_hash_policy
}

// Address is one of the router's own.
type Address struct {
	Link int
	At   netip.Prefix // with the address's own bits
}

// Where is an address on a link.
type Where struct {
	Link int
	At   netip.Addr
}

// Neighbor is what is known of it.
type Neighbor struct {
	MAC   MAC
	Valid bool // the kernel sends to it without asking first
	Stale bool // the kernel would ask, beside, whether it is still there
}

// Hop is one way of a route.
type Hop struct {
	Link   int
	Via    netip.Addr // the zero value where the destination itself is on the link
	Weight int
	Dead   bool
	Encap  bool
}

// Group numbers a set of hops. 0 has none.
type Group int32

// Route is what a table says of a prefix. Of several of one prefix the least metric counts.
type Route struct {
	Type   uint8
	TOS    uint8
	Metric uint32
	MTU    int
	Group  Group
	// Several says that the hops are those of routes that are no multipath route: the kernel takes
	// one of them, and may change its mind. IPv6 has such.
	Several bool
}

// Entry are the routes of one prefix in one table. It is in the order in which the kernel tries
// them.
type Entry struct {
	Best Route
	More []Route
}

// Table is one routing table, of both families.
type Table map[netip.Prefix]Entry

// Rule is one step of policy routing.
type Rule struct {
	IPv6     bool
	Priority uint32
	Action   uint8 // 1 looks into the table
	Table    uint32
	From, To netip.Prefix
	In, Out  string
	// Suppress is the length up to which a match does not count; -1 for none.
	Suppress int
	Inverted bool
	Other    string // what else it matches on
}

// Lookup is the action that looks into a table.
const Lookup uint8 = 1

// State is a router's.
type State struct {
	Host      Host
	Links     map[int]Link
	Addresses map[Address]bool
	Neighbors map[Where]Neighbor
	Tables    map[uint32]Table
	Rules     []Rule // in the order in which the kernel asks them, each family for itself

	groups [][]Hop
	number map[string]Group
}

// New is an empty one.
func New() *State {
	return &State{Links: map[int]Link{}, Addresses: map[Address]bool{}, Neighbors: map[Where]Neighbor{}, Tables: map[uint32]Table{},
		groups: make([][]Hop, 1), number: map[string]Group{}}
}

// GroupOf numbers hops; the same hops in the same order have the same number.
func (s *State) GroupOf(hops []Hop) Group {
	if len(hops) == 0 {
		return 0
	}
	var b [256]byte
	key := b[:0]
	for _, h := range hops {
		key = append(key, byte(h.Link), byte(h.Link>>8), byte(h.Link>>16), byte(h.Link>>24), byte(h.Weight), byte(h.Weight>>8), flags(h))
		key = append(key, h.Via.AsSlice()...)
		key = append(key, h.Via.Zone()...)
	}
	if known, ok := s.number[string(key)]; ok {
		return known
	}
	n := Group(len(s.groups))
	s.groups, s.number[string(key)] = append(s.groups, slices.Clone(hops)), n
	return n
}

func flags(h Hop) (b byte) {
	if h.Dead {
		b |= 1
	}
	if h.Encap {
		b |= 2
	}
	if h.Via.Is6() {
		b |= 4
	}
	if !h.Via.IsValid() {
		b |= 8
	}
	return b
}

// Hops are those of a group. They are not to be changed.
func (s *State) Hops(g Group) []Hop {
	if int(g) >= len(s.groups) {
		return nil
	}
	return s.groups[g]
}

// Groups is one more than the largest number of a group.
func (s *State) Groups() int { return len(s.groups) }

// Put adds a route, or changes the one of the same prefix, metric and TOS.
func (s *State) Put(table uint32, to netip.Prefix, r Route) {
	t := s.Tables[table]
	if t == nil {
		t = Table{}
		s.Tables[table] = t
	}
	e, there := t[to]
	switch {
	case !there || e.Best.same(r):
		e.Best = r
	default:
		if i := slices.IndexFunc(e.More, r.same); i >= 0 {
			e.More[i] = r
			t[to] = e
			return
		}
		all := append([]Route{e.Best}, e.More...)
		all = append(all, r)
		slices.SortStableFunc(all, Route.compare)
		e.Best, e.More = all[0], all[1:]
	}
	t[to] = e
}

// compare is the kernel's order: a route for a type of service before one for all, then the metric.
func (r Route) compare(other Route) int {
	if r.TOS != other.TOS {
		return int(other.TOS) - int(r.TOS)
	}
	switch {
	case r.Metric < other.Metric:
		return -1
	case r.Metric > other.Metric:
		return 1
	}
	return 0
}

func (r Route) same(other Route) bool { return r.Metric == other.Metric && r.TOS == other.TOS }

// Get finds the route of a prefix with a metric and type of service.
func (s *State) Get(table uint32, to netip.Prefix, metric uint32, tos uint8) (Route, bool) {
	e, there := s.Tables[table][to]
	if !there {
		return Route{}, false
	}
	for _, r := range append([]Route{e.Best}, e.More...) {
		if r.Metric == metric && r.TOS == tos {
			return r, true
		}
	}
	return Route{}, false
}

// Drop takes the route of a prefix with a metric and type of service away.
func (s *State) Drop(table uint32, to netip.Prefix, metric uint32, tos uint8) {
	t := s.Tables[table]
	e, there := t[to]
	if !there {
		return
	}
	all := slices.DeleteFunc(append([]Route{e.Best}, e.More...), func(r Route) bool { return r.Metric == metric && r.TOS == tos })
	switch len(all) {
	case 0:
		delete(t, to)
	case 1:
		t[to] = Entry{Best: all[0]}
	default:
		t[to] = Entry{Best: all[0], More: all[1:]}
	}
}

// SortRules puts them into the order in which the kernel asks them.
func (s *State) SortRules() {
	slices.SortStableFunc(s.Rules, func(a, b Rule) int { return int(int64(a.Priority) - int64(b.Priority)) })
}

// Find returns the link of a name.
func (s *State) Find(name string) (Link, bool) {
	for _, l := range s.Links {
		if l.Name == name {
			return l, true
		}
	}
	return Link{}, false
}

// Count is how many routes there are in all tables.
func (s *State) Count() (n int) {
	for _, t := range s.Tables {
		for _, e := range t {
			n += 1 + len(e.More)
		}
	}
	return n
}

// Words describes hops for people: "via 192.0.2.1 dev eth0".
func (s *State) Words(g Group) string {
	var all []string
	for _, h := range s.Hops(g) {
		text := "dev " + s.Links[h.Link].Name
		if h.Via.IsValid() {
			text = "via " + h.Via.String() + " " + text
		}
		if len(s.Hops(g)) > 1 {
			text += fmt.Sprintf(" weight %d", h.Weight)
		}
		all = append(all, text)
	}
	return strings.Join(all, ", ")
}
