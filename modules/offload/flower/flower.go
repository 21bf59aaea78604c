// SPDX-License-Identifier: Apache-2.0

// Package flower forwards packets by tc flower filters as a plan says: in the NIC where it can
// (skip_sw), else in software.
//
//	chain 0         frames for the router, by link --> chain of the family; all else to the stack
//	routes          TTL, sources and headers that are the stack's; then one priority per prefix length,
//	                the longest first --> chain of the decision, or to the stack
//	a decision      came by the link that it leaves by: to the stack; else rewrite and redirect
//
// What bites, and is no matter of XDP's:
//   - It sees no options, lengths and checksums of IPv4, and repairs a wrong header checksum.
//   - It has no hash: routes with several ways are the stack's; and no reverse-path filter: links
//     with one are.
//   - It cannot tell a packet's size: decisions whose MTU is less than a port's are the stack's.
//   - In software the rules are believed for the time of a lease, as those of XDP. What a NIC does
//     cannot ask for one: there nothing ends it but [Remove], and who follows the kernel's routing
//     must not die.
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
	shared      = 3 // nothing leads to it
	decisions   = 16
)

// leadHandle begins the handles of Weir's rules in chain 0, which lead to the others.
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
	actions map[lead]uint32                 // that lead to them; none where the NIC does it
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

// NameOf is the device's name.
func NameOf(ns *netns.Namespace, port int) (name string, err error) {
	err = ns.Do(func() error {
		device, err := net.InterfaceByIndex(port)
		if err == nil {
			name = device.Name
		}
		return err
	})
	if err != nil {
		return "", fmt.Errorf("look for device %d: %w", port, err)
	}
	return name, nil
}

// families are the prefixes of all addresses.
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

// lead has the port's frames decided by this table, each link and family at once.
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

// unlead gives all frames back to the stack.
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
