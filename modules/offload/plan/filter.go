// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"net/netip"
	"slices"

	"weir/modules/offload/state"
)

// family reports whether a filter sees packets of a family.
func family(f state.Filter, ipv6 bool) bool { return ipv6 && f.IPv6 || !ipv6 && f.IPv4 }

// anywhere reports whether a filter has no limit of destinations.
func anywhere(f state.Filter) bool { return !f.To.IsValid() || f.To.Bits() == 0 }

// on returns a link and the devices below it, which see its packets too.
func on(s *state.State, index int) (all []int) {
	all = append(all, index)
	if l := s.Links[index]; l.Kind == "vlan" {
		all = append(all, l.Parent)
	}
	for _, l := range s.Links {
		if l.Master != 0 && slices.Contains(all, l.Master) {
			all = append(all, l.Index)
		}
	}
	return all
}

// filteredInput reports whether a filter may decide about all packets of a family from a link.
func filteredInput(s *state.State, link int, ipv6 bool) bool {
	return slices.ContainsFunc(s.Filters, func(f state.Filter) bool {
		return family(f, ipv6) && anywhere(f) && !f.Egress && (f.Link == 0 || slices.Contains(on(s, link), f.Link))
	})
}

// filteredOutput reports whether a filter may decide about all packets of a family to a link.
func (p *Planner) filteredOutput(link int, ipv6 bool) bool {
	return slices.ContainsFunc(p.state.Filters, func(f state.Filter) bool {
		return family(f, ipv6) && f.Egress && slices.Contains(on(p.state, link), f.Link)
	})
}

// filtered returns the destinations that filters may decide about.
func filtered(s *state.State) (all []netip.Prefix) {
	for _, f := range s.Filters {
		if f.Link == 0 && !anywhere(f) {
			all = append(all, f.To.Masked())
		}
	}
	return all
}

// Filters returns the filters that keep packets of the policy from the fast path.
func (p *Planner) Filters() (all []state.Filter) {
	uses := func(f state.Filter) bool {
		if !(p.policy.IPv4 && f.IPv4) && !(p.policy.IPv6 && f.IPv6) {
			return false
		}
		if f.Link == 0 {
			return true
		}
		if f.Egress {
			for link := range p.outputs {
				if slices.Contains(on(p.state, link), f.Link) {
					return true
				}
			}
			return false
		}
		return slices.ContainsFunc(p.inputs, func(in Input) bool { return slices.Contains(on(p.state, in.Link), f.Link) })
	}
	for _, f := range p.state.Filters {
		if uses(f) {
			all = append(all, f)
		}
	}
	return all
}

// closed returns the reason why no input forwards a family; WhyNot if one does.
func (p *Planner) closed(ipv6 bool) Why {
	why := WhyForwarding
	for _, in := range p.inputs {
		if ipv6 && in.IPv6 || !ipv6 && in.IPv4 {
			return WhyNot
		}
		if filteredInput(p.state, in.Link, ipv6) {
			why = WhyFilter
		}
	}
	return why
}
