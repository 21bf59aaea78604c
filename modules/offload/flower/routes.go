// SPDX-License-Identifier: Apache-2.0

package flower

import (
	"encoding/binary"
	"net/netip"
	"slices"

	"weir/kernel/flower"
	"weir/modules/offload/plan"
)

// lead is the effect of prefix rules: send packets of a family to the chain of a decision.
type lead struct {
	to   plan.Decision
	ipv6 bool
}

// become makes changes in their order, so that every address always has its old or its new
// decision. Decisions come before the routes that go to them.
func (t *table) become(ops []change) error {
	for _, op := range ops {
		d := op.Decision
		if _, known := t.rules[d]; known || d == plan.CPU || op.Remove {
			continue
		}
		t.rules[d] = t.decided(d)
		for _, r := range t.rules[d] {
			if err := t.conn.Add(r); err != nil {
				return err
			}
		}
	}
	for i, op := range ops {
		if err := t.route(op); err != nil {
			return outOfSpace(i, err)
		}
	}
	return outOfSpace(len(ops), t.conn.Flush())
}

// change applies a new treatment of a decision's packets. Rules for the stack come first and go
// last; all others are replaced atomically.
func (t *table) change(d plan.Decision) error {
	before, known := t.rules[d]
	if !known {
		return nil
	}
	after := t.decided(d)
	t.rules[d] = after
	for _, r := range after { // new rules match first and pass to the stack
		if err := t.conn.Replace(r); err != nil {
			return err
		}
	}
	for _, r := range before {
		if !slices.ContainsFunc(after, func(a flower.Rule) bool { return samePlace(a, r) }) {
			if err := t.conn.Remove(r); err != nil {
				return err
			}
		}
	}
	return t.conn.Flush()
}

func samePlace(a, b flower.Rule) bool {
	return a.Chain == b.Chain && a.Priority == b.Priority && a.Handle == b.Handle && a.IPv6 == b.IPv6 && a.Tagged == b.Tagged
}

// route writes one prefix.
func (t *table) route(op change) error {
	ipv6, length := op.To.Addr().Is6(), op.To.Addr().BitLen()
	for _, tagged := range t.tags {
		r := flower.Rule{Chain: t.base + uint32(routes4+index(ipv6)), Priority: uint16(priorityPrefix + 2*(length-op.To.Bits()) + index(tagged)), Handle: op.handle, IPv6: ipv6,
			Tagged: tagged, Dst: op.To, Protocol: -1}
		var err error
		if !op.Remove {
			err = t.direct(&r, lead{op.Decision, ipv6})
		}
		switch {
		case err != nil:
		case op.Remove:
			err = t.conn.Remove(r)
		case op.Replace:
			err = t.conn.Replace(r)
		default:
			err = t.conn.Add(r)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// direct makes a rule go to a decision. In software all such rules share an action, which a rule of
// an unreachable chain keeps alive.
func (t *table) direct(r *flower.Rule, to lead) (err error) {
	if to.to != plan.CPU {
		r.Goto = t.chainOf(to.to, to.ipv6)
	}
	if t.actions == nil {
		return nil
	}
	action, made := t.actions[to]
	if !made {
		// The decision number is its handle and identifying address.
		number := uint32(to.to) + 1
		holding := flower.Rule{Chain: t.base + shared, Priority: uint16(1 + index(to.ipv6)), Handle: number, IPv6: to.ipv6, Dst: numbered(number, to.ipv6), Protocol: -1, Goto: r.Goto}
		if action, err = t.conn.Share(holding); err != nil {
			return err
		}
		t.actions[to] = action
	}
	r.Action = action
	return nil
}

func numbered(n uint32, ipv6 bool) netip.Prefix {
	if ipv6 {
		a := [16]byte{}
		binary.BigEndian.PutUint32(a[12:], n)
		return netip.PrefixFrom(netip.AddrFrom16(a), 128)
	}
	a := [4]byte{}
	binary.BigEndian.PutUint32(a[:], n)
	return netip.PrefixFrom(netip.AddrFrom4(a), 32)
}

func (t *table) chainOf(d plan.Decision, ipv6 bool) uint32 {
	return t.base + uint32(decisions+2*int(d)+index(ipv6))
}
