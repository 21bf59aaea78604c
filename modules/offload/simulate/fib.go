// SPDX-License-Identifier: Apache-2.0

// Package simulate computes the kernel's treatment of a packet from the state of a router, in the
// plainest way: rule by rule, table by table, length by length. It shares no code with the planner,
// which it verifies.
package simulate

import (
	"fmt"
	"net/netip"
	"slices"

	"weir/modules/offload/state"
)

// Fate is the kernel's treatment of packets to an address.
type Fate struct {
	// Local reports packets that the kernel does not forward, or not by a unicast route.
	Local bool
	// To is the matching prefix in Table; the zero value without one.
	To    netip.Prefix
	Table uint32
	Hops  []state.Hop
	MTU   int // of the route
	// Uncertain is the criterion beside the destination that the kernel uses, if any.
	Uncertain string
}

// FIB looks addresses up in one state. It is safe for concurrent use.
type FIB struct {
	state   *state.State
	lengths map[uint32]*[2][]int // by table and family, in descending order
}

// New returns a FIB of a state, which must not change afterwards.
func New(s *state.State) *FIB {
	f := &FIB{s, map[uint32]*[2][]int{}}
	for number, table := range s.Tables {
		var seen [2][129]bool
		for to := range table {
			seen[family(to.Addr())][to.Bits()] = true
		}
		lengths := &[2][]int{}
		for fam := range seen {
			for bits := 128; bits >= 0; bits-- {
				if seen[fam][bits] {
					lengths[fam] = append(lengths[fam], bits)
				}
			}
		}
		f.lengths[number] = lengths
	}
	return f
}

func family(a netip.Addr) int {
	if a.Is4() {
		return 0
	}
	return 1
}

// Fate looks up an address.
func (f *FIB) Fate(a netip.Addr) Fate {
	for _, r := range f.state.Rules {
		if r.IPv6 != a.Is6() || r.Out != "" || r.In == "lo" || r.Other == "l3mdev" {
			continue
		}
		if r.From.Bits() > 0 || r.Other != "" || r.Inverted || r.In != "" || r.To.Bits() > 0 || r.Suppress >= 0 {
			return Fate{Uncertain: fmt.Sprintf("rule %d", r.Priority)}
		}
		if r.Action != state.Lookup {
			return Fate{Local: true}
		}
		if fate, found := f.table(r.Table, a); found {
			return fate
		}
	}
	return Fate{Local: true}
}

func (f *FIB) table(number uint32, a netip.Addr) (Fate, bool) {
	lengths := f.lengths[number]
	if lengths == nil {
		return Fate{}, false
	}
	for _, bits := range lengths[family(a)] {
		to, _ := a.Prefix(bits)
		e, there := f.state.Tables[number][to]
		if !there {
			continue
		}
		fate := Fate{To: to, Table: number, MTU: e.Best.MTU, Hops: f.state.Hops(e.Best.Group), Local: e.Best.Type != state.Unicast}
		if e.Best.Several || e.Best.TOS != 0 || slices.ContainsFunc(e.More, func(r state.Route) bool { return r.TOS != 0 }) {
			fate.Uncertain = "several routes of " + to.String()
		}
		for _, r := range append([]state.Route{e.Best}, e.More...) {
			if r.From.IsValid() {
				fate.Uncertain = "routes by source of " + to.String()
			}
		}
		if e.Best.Type == state.Throw {
			fate.Uncertain = "throw route " + to.String()
		}
		return fate, true
	}
	return Fate{}, false
}

// Way is a possible output of a packet.
type Way struct {
	Link     int
	Src, Dst state.MAC
	Weight   int
	MTU      int
}

// Ways returns the kernel's possible outputs for an address that it forwards without further work;
// nil for others.
func (f *FIB) Ways(a netip.Addr) []Way {
	fate := f.Fate(a)
	if fate.Local || fate.Uncertain != "" || len(fate.Hops) == 0 {
		return nil
	}
	var all []Way
	for _, h := range fate.Hops {
		at := h.Via
		if !at.IsValid() {
			at = a
		}
		l, known := f.state.Links[h.Link]
		n, resolved := f.state.Neighbors[state.Where{Link: h.Link, At: at}]
		if !known || !resolved || !n.Valid || h.Dead || h.Encap || !l.Up || !l.Lower {
			return nil
		}
		mtu := l.MTU
		if a.Is6() && l.MTU6 > 0 && l.MTU6 < mtu {
			mtu = l.MTU6
		}
		if fate.MTU > 0 && fate.MTU < mtu {
			mtu = fate.MTU
		}
		all = append(all, Way{Link: h.Link, Src: l.MAC, Dst: n.MAC, Weight: h.Weight, MTU: mtu})
	}
	return all
}
