// SPDX-License-Identifier: Apache-2.0

package simulate

import (
	"net/netip"
)

// Scope is a policy, decoded independently of the planner.
type Scope struct {
	Outputs    map[int]bool
	Except     []netip.Prefix
	Table      uint32 // 0 for all
	Split      bool   // multipath routes are offloaded
	Most       int    // maximum number of ways
	IPv4, IPv6 bool
}

// Expect returns the expected fast path within a scope.
func (f *FIB) Expect(s Scope) Expect {
	return func(a netip.Addr, ways []Way) []Way {
		if ways == nil || special(a) || a.Is4() && !s.IPv4 || a.Is6() && !s.IPv6 {
			return nil
		}
		if f.filtered(a, ways) {
			return nil
		}
		for _, p := range s.Except {
			if p.Contains(a) {
				return nil
			}
		}
		if len(ways) > 1 && (!s.Split || len(ways) > s.Most) {
			return nil
		}
		for _, w := range ways {
			if !s.Outputs[w.Link] {
				return nil
			}
		}
		if s.Table != 0 {
			if _, listed := f.table(s.Table, a); !listed {
				return nil
			}
		}
		return ways
	}
}

// special reports whether routers never simply forward to an address.
func special(a netip.Addr) bool {
	if a.IsMulticast() || a.IsLoopback() || a.IsLinkLocalUnicast() || a.IsUnspecified() {
		return true
	}
	if a.Is4() {
		b := a.As4()
		return b[0] == 0 || b == [4]byte{255, 255, 255, 255}
	}
	b := a.As16()
	for _, octet := range b[:10] {
		if octet != 0 {
			return false
		}
	}
	// ::/96 and ::ffff:0:0/96 represent IPv4 addresses.
	return b[10] == b[11] && (b[10] == 0 || b[10] == 0xff)
}
