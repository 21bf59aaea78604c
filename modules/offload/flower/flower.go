// SPDX-License-Identifier: Apache-2.0

// Package flower forwards packets by tc flower filters of a plan: in the NIC if possible (skip_sw),
// else in software.
//
//	chain 0         frames for the router, by link --> chain of the family; others to the stack
//	routes          TTL, sources and headers for the stack; then one priority per prefix length,
//	                in descending order --> chain of the decision, or to the stack
//	a decision      output link is the input link: to the stack; else rewrite and redirect
//
// Pitfalls, beside those of XDP:
//   - Filters cannot match options, lengths and checksums of IPv4, and repair a wrong header
//     checksum.
//   - Without a hash, the stack gets multipath routes. Without a reverse-path filter, it gets all
//     packets of links with one.
//   - Filters cannot match the packet size: the stack gets decisions with a smaller MTU than the
//     port.
//   - Rules in software are valid for a lease, as XDP's. A NIC cannot check a lease: its rules stay
//     until [Remove], so the follower of the kernel's routing must keep running.
package flower

import (
	"fmt"
	"net"
	"net/netip"
	"slices"

	"weir/kernel/flower"
	"weir/kernel/netns"
	"weir/modules/offload/plan"
)

// Chains of Weir's rules, by which every process recognizes them, in two generations: a new one is
// written while the old one is active. Routes of IPv4 and IPv6 start at first, one chain per
// decision and family at decisions.
const (
	firstChain  = 0x7700000
	generation  = 0x80000
	generations = 2
	routes4     = 1
	routes6     = 2
	shared      = 3 // unreachable
	decisions   = 16
)

// leadHandle is the start of the handles of Weir's rules in chain 0, which go to the other chains.
const leadHandle = 0x77e1 << 16

// Priorities of a chain of routes, before those of prefixes.
const (
	priorityTTL = iota + 1
	prioritySource
	priorityHeader
	// priorityPrefix is the priority of the longest prefixes. Filters of one priority have one
	// protocol, so tagged frames have every other one.
	priorityPrefix = 2*priorityHeader + 1
)

// table is the filters of one port. Not for concurrent use.
type table struct {
	planner *plan.Planner
	port    int
	conn    *flower.Conn
	base    uint32 // of its generation's chains
	guard   int
	rules   map[plan.Decision][]flower.Rule // of the decisions' chains
	actions map[lead]uint32                 // that go to them; none in a NIC
	tags    []bool                          // whether frames have a tag: rules are of either kind
}

func newTable(p *plan.Planner, port int, conn *flower.Conn, base uint32, guard int) *table {
	t := &table{planner: p, port: port, conn: conn, base: base, guard: guard, rules: map[plan.Decision][]flower.Rule{}}
	if conn.Mode()&flower.SkipHardware != 0 {
		t.actions = map[lead]uint32{}
	}
	for _, in := range p.Inputs() {
		if tagged := in.VLAN != 0; in.Port == port && !slices.Contains(t.tags, tagged) {
			t.tags = append(t.tags, tagged)
		}
	}
	return t
}

// NameOf returns the name of a device.
func NameOf(ns *netns.Namespace, port int) (name string, err error) {
	err = ns.Do(func() error {
		device, err := net.InterfaceByIndex(port)
		if err == nil {
			name = device.Name
		}
		return err
	})
	if err != nil {
		return "", fmt.Errorf("find device %d: %w", port, err)
	}
	return name, nil
}

// families holds 0.0.0.0/0 and ::/0: the prefix of all addresses of each family.
var families = []netip.Prefix{netip.PrefixFrom(netip.IPv4Unspecified(), 0), netip.PrefixFrom(netip.IPv6Unspecified(), 0)}

// fill writes all rules except those that lead to them: exceptions, decisions, then routes.
func (t *table) fill(ops []change) error {
	if most := (generation - decisions) / 2; t.planner.Decisions() > most {
		return fmt.Errorf("%d next hops are more than chains for them (%d)", t.planner.Decisions(), most)
	}
	if err := t.exceptions(); err != nil {
		return err
	}
	return t.become(ops)
}

// leads returns the rules of chain 0, by link and family, identified by handle.
func (t *table) leads() (all []flower.Rule) {
	for _, in := range t.planner.Inputs() {
		if in.Port != t.port || in.Filter != 0 {
			continue
		}
		for family, on := range []bool{in.IPv4, in.IPv6} {
			if on {
				all = append(all, flower.Rule{Priority: uint16(1 + 4*index(in.VLAN != 0) + family), Handle: leadHandle | uint32(in.VLAN<<1|family), IPv6: family == 1,
					Tagged: in.VLAN != 0, VLAN: uint16(in.VLAN), To: in.MAC, Protocol: -1, Goto: t.base + uint32(routes4+family), Guard: t.guard})
			}
		}
	}
	return all
}

// lead switches the port's frames to this table, atomically per link and family.
func (t *table) lead(before []flower.Filter) error {
	leads := t.leads()
	for _, r := range leads {
		if err := t.conn.Replace(r); err != nil {
			return err
		}
	}
	for _, f := range before {
		if f.Chain == 0 && own(f) && !slices.ContainsFunc(leads, func(r flower.Rule) bool { return r.Handle == f.Handle }) {
			if err := t.conn.Remove(asRule(f)); err != nil {
				return err
			}
		}
	}
	return t.conn.Flush()
}

// unlead passes all frames to the stack.
func (t *table) unlead() error {
	for _, r := range t.leads() {
		if err := t.conn.Remove(r); err != nil {
			return err
		}
	}
	return t.conn.Flush()
}

func index(b bool) int {
	if b {
		return 1
	}
	return 0
}
