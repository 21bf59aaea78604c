// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"
	"net/netip"
	"slices"

	"weir/internal/fault"
	"weir/internal/nearest"
	"weir/ix/choose"
)

// Ports returns the ports of all sponsors in file order. A port's index is its number for
// [choose.Path].
func (e *Exchange) Ports() (all []choose.Port) {
	for _, s := range e.Sponsors {
		for _, p := range s.Ports {
			all = append(all, choose.Port{Sponsor: s.Name, Name: p.Name, Rate: uint64(p.Rate), Place: p.Place, Drained: s.Drained || p.Drained})
		}
	}
	return all
}

// NextHops returns the number of the port of each next hop.
func (e *Exchange) NextHops() map[netip.Addr]int {
	all, n := map[netip.Addr]int{}, 0
	for _, s := range e.Sponsors {
		for _, p := range s.Ports {
			for _, a := range p.Addresses {
				all[a] = n
			}
			n++
		}
	}
	return all
}

// HopNumbers returns the number of each next hop among the addresses of its port.
func (e *Exchange) HopNumbers() map[netip.Addr]uint8 {
	all := map[netip.Addr]uint8{}
	for _, s := range e.Sponsors {
		for _, p := range s.Ports {
			for i, a := range p.Addresses {
				all[a] = uint8(i)
			}
		}
	}
	return all
}

// Rules returns the settings of the choice.
func (e *Exchange) Rules() choose.Rules {
	return choose.Rules{Tolerance: e.Choose.Tolerance, Diverse: e.Choose.Diverse, Prefer: e.Choose.Prefer}
}

// Denied reports, by port, whether the sponsor's `only` lacks the member.
func (e *Exchange) Denied(member string) (denied []bool) {
	for _, s := range e.Sponsors {
		for range s.Ports {
			denied = append(denied, s.Only != nil && !slices.Contains(s.Only, member))
		}
	}
	return denied
}

// Rejected reports, by port, whether the member has the sponsor in its `without`.
func (e *Exchange) Rejected(m *Member) (rejected []bool) {
	for _, s := range e.Sponsors {
		for range s.Ports {
			rejected = append(rejected, slices.Contains(m.Without, s.Name))
		}
	}
	return rejected
}

// Chosen returns the member's settings of the choice.
func (e *Exchange) Chosen(m *Member) choose.Member {
	barred := e.Denied(m.Name)
	for i, rejected := range e.Rejected(m) {
		barred[i] = barred[i] || rejected
	}
	return choose.Member{Place: m.Place, Barred: barred}
}

// Member returns the member with a name; its error suggests the nearest one.
func (e *Exchange) Member(name string) (*Member, error) {
	var names []string
	for i := range e.Members {
		if e.Members[i].Name == name {
			return &e.Members[i], nil
		}
		names = append(names, e.Members[i].Name)
	}
	return nil, fault.New(fault.Usage, "name a member of the file", "there is no member %q%s", name, nearest.Hint(name, names))
}

// Notes returns remarks about a valid file.
func (e *Exchange) Notes() (all []string) {
	if !e.Feed.Bird.IsValid() || len(e.Listen) == 0 || !e.RouterID.IsValid() {
		all = append(all, "a path server requires feed with bird and local, listen, and exchange.router_id; plan and explain do not")
	}
	for i := range e.Members {
		m := &e.Members[i]
		if !slices.Contains(e.Chosen(m).Barred, false) {
			all = append(all, fmt.Sprintf("members.%s: no sponsor is left by `only` and `without`", m.Name))
		}
		if m.Place != "" && !slices.ContainsFunc(e.Ports(), func(p choose.Port) bool { return p.Place == m.Place }) {
			all = append(all, fmt.Sprintf("members.%s: no port is in place %s", m.Name, m.Place))
		}
	}
	return all
}
