// SPDX-License-Identifier: Apache-2.0

package simulate

import (
	"fmt"
	"net/netip"

	"weir/modules/offload/state"
)

// Enters returns "" if the kernel forwards all packets of a family from a link by its routes alone,
// or the reason why not.
func (f *FIB) Enters(link state.Link, ipv6 bool) string {
	if !link.Up || ipv6 && !f.state.Host.Forward6 || !ipv6 && !link.Forward4 {
		return "forwarding is off at " + link.Name
	}
	for _, filter := range f.state.Filters {
		every := !filter.To.IsValid() || filter.To.Bits() == 0
		if every && !filter.Egress && matches(filter, ipv6) && (filter.Link == 0 || f.passes(link.Index, filter.Link)) {
			return fmt.Sprintf("%s may decide about it", filter.Name)
		}
	}
	return ""
}

func matches(filter state.Filter, ipv6 bool) bool {
	if ipv6 {
		return filter.IPv6
	}
	return filter.IPv4
}

// passes reports whether packets of a link pass a device: the link itself, the one below a VLAN, or
// a device of a bond.
func (f *FIB) passes(link, device int) bool {
	l := f.state.Links[link]
	return link == device || l.Kind == "vlan" && f.passes(l.Parent, device) || f.state.Links[device].Master == link && link != 0
}

// filtered reports whether a filter may decide about packets to an address.
func (f *FIB) filtered(a netip.Addr, ways []Way) bool {
	for _, filter := range f.state.Filters {
		switch {
		case !matches(filter, a.Is6()):
		case filter.Egress:
			for _, w := range ways {
				if f.passes(w.Link, filter.Link) {
					return true
				}
			}
		case filter.Link == 0 && filter.To.Bits() > 0 && filter.To.Contains(a):
			return true
		}
	}
	return false
}
