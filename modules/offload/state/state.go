// SPDX-License-Identifier: Apache-2.0

// Package state models the forwarding state of a Linux router: links, addresses, neighbours,
// routing tables and rules. It is pure and has a file form, so that a router can be studied
// elsewhere.
//
// Pitfalls: a State is not safe for concurrent use. A [Group] number is valid in its own State
// only.
package state

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// Route types (RTN_*). Only Unicast routes are offloaded.
const (
	Unicast   uint8 = 1
	Local     uint8 = 2
	Broadcast uint8 = 3
	Multicast uint8 = 5
	Throw     uint8 = 9
)

// Predefined tables.
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
	Lower  bool // has a carrier
	Master int  // index of its bond, bridge or VRF; 0 for none
	Parent int  // index of the device below; 0 for none
	VLAN   int  // of kind vlan
	// Protocol is the EtherType of a vlan's tag.
	Protocol  int
	Elsewhere bool // Parent is in another namespace
	Ethernet  bool
	Loopback  bool
	Forward4  bool
	RPFilter  int // of the device; see [Host]
}

// Host holds settings of the whole namespace.
type Host struct {
	Forward6  bool // net.ipv6.conf.all.forwarding
	RPFilter  int  // net.ipv4.conf.all.rp_filter; the kernel uses the maximum of it and the link's
	MultiHash int  // net.ipv4.fib_multipath_hash_policy
}

// Address is an address of the router.
type Address struct {
	Link int
	At   netip.Prefix // with the address's own bits
}

// Where is an address on a link.
type Where struct {
	Link int
	At   netip.Addr
}

// Neighbor is an entry of the neighbour table.
type Neighbor struct {
	MAC   MAC
	Valid bool // the kernel sends to it without resolution
	Stale bool // the kernel sends and also confirms it
}

// Hop is a next hop of a route.
type Hop struct {
	Link   int
	Via    netip.Addr // the zero value if the destination is on the link
	Weight int
	Dead   bool
	Encap  bool
}

// Group numbers a set of hops. 0 has none.
type Group int32

// Route is a route of a prefix. The kernel prefers the lowest metric.
type Route struct {
	Type   uint8
	TOS    uint8
	Metric uint32
	MTU    int
	Group  Group
	From   netip.Prefix // of an IPv6 route for some sources; the zero value for all
	// Several reports separate routes with one metric, not a multipath route (IPv6). The kernel
	// uses one of them, and may change it.
	Several bool
}

// Entry holds the routes of one prefix in one table, in the order of the kernel.
type Entry struct {
	Best Route
	More []Route
}

// Table is one routing table of both families.
type Table map[netip.Prefix]Entry

// Rule is one step of policy routing.
type Rule struct {
	IPv6     bool
	Priority uint32
	Action   uint8 // 1 looks the destination up in the table
	Table    uint32
	From, To netip.Prefix
	In, Out  string
	// Suppress is suppress_prefixlength: matches up to this length are ignored; -1 for none.
	Suppress int
	Inverted bool
	Other    string // another criterion
}

// Lookup is the rule action that looks the destination up in a table.
const Lookup uint8 = 1

// Filter may decide about forwarded packets beside the routing: a firewall's chain, an IPsec
// policy, a tc filter.
type Filter struct {
	Name       string // for people
	IPv4, IPv6 bool
	Link       int          // 0 for all; else the input link, or the output link with Egress
	Egress     bool         // it sees packets that leave by Link
	To         netip.Prefix // destinations; the zero value for all
	// Undelivered marks an output port that drops redirected frames.
	Undelivered bool
}

// State is the forwarding state of a router.
type State struct {
	Host      Host
	Links     map[int]Link
	Addresses map[Address]bool
	Neighbors map[Where]Neighbor
	Tables    map[uint32]Table
	Rules     []Rule // in the kernel's order within each family
	Filters   []Filter

	groups [][]Hop
	number map[string]Group
}

// New returns an empty state.
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

// Hops returns the hops of a group. They must not be changed.
func (s *State) Hops(g Group) []Hop {
	if int(g) >= len(s.groups) {
		return nil
	}
	return s.groups[g]
}

// Groups returns one more than the largest group number.
func (s *State) Groups() int { return len(s.groups) }

// Put adds a route, or replaces the route of the same prefix, metric, TOS and source.
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

// compare is the kernel's order: routes with a source or a type of service first, then the metric.
func (r Route) compare(other Route) int {
	if r.From.IsValid() || other.From.IsValid() {
		if length := length(other.From) - length(r.From); length != 0 {
			return length
		}
	}
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

func length(p netip.Prefix) int {
	if !p.IsValid() {
		return 0
	}
	return p.Bits()
}

func (r Route) same(other Route) bool {
	return r.Metric == other.Metric && r.TOS == other.TOS && r.From == other.From
}

// Get returns the route of a prefix with the metric, type of service and source of another one.
func (s *State) Get(table uint32, to netip.Prefix, like Route) (Route, bool) {
	e, there := s.Tables[table][to]
	if !there {
		return Route{}, false
	}
	for _, r := range append([]Route{e.Best}, e.More...) {
		if r.same(like) {
			return r, true
		}
	}
	return Route{}, false
}

// Drop removes the route of a prefix with the metric, type of service and source of another one.
func (s *State) Drop(table uint32, to netip.Prefix, like Route) {
	t := s.Tables[table]
	e, there := t[to]
	if !there {
		return
	}
	all := slices.DeleteFunc(append([]Route{e.Best}, e.More...), like.same)
	switch len(all) {
	case 0:
		delete(t, to)
	case 1:
		t[to] = Entry{Best: all[0]}
	default:
		t[to] = Entry{Best: all[0], More: all[1:]}
	}
}

// SortRules sorts the rules in the kernel's order.
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

// Count returns the number of routes in all tables.
func (s *State) Count() (n int) {
	for _, t := range s.Tables {
		for _, e := range t {
			n += 1 + len(e.More)
		}
	}
	return n
}

// Words describes hops: "via 192.0.2.1 dev eth0".
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
