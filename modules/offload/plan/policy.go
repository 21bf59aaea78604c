// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"net/netip"

	"weir/modules/offload/state"
)

// Multipath is the treatment of multipath routes.
type Multipath string

const (
	// Split chooses by a weighted hash of the addresses, constant for a flow. It differs from the
	// kernel's hash: a flow may use another next hop than by the CPU.
	Split Multipath = "split"
	// Leave leaves them to the CPU.
	Leave Multipath = "cpu"
)

// Policy selects the packets that may be offloaded.
type Policy struct {
	From []string // links with offloaded packets
	To   []string // links that they may leave by; empty is From
	// Table is the table with the prefixes that may be offloaded; forwarding follows the kernel's
	// tables. 0 is all.
	Table     uint32
	Except    []netip.Prefix // destinations left to the CPU
	Multipath Multipath      // "" is Split
	IPv4      bool
	IPv6      bool
}

// MaxHops is the maximum number of next hops of a route; the CPU gets larger ones.
const MaxHops = 16

// exceptions returns destinations that need more than a route: non-unicast, link-local and local
// addresses.
func exceptions() (all []netip.Prefix) {
	for _, text := range []string{
		"0.0.0.0/8", "127.0.0.0/8", "169.254.0.0/16", "224.0.0.0/4", "255.255.255.255/32",
		"::/96", "::ffff:0:0/96", "fe80::/10", "ff00::/8",
	} {
		all = append(all, netip.MustParsePrefix(text))
	}
	return all
}

// layers returns the tables in lookup order of the kernel.
func layers(s *state.State, ipv6 bool) (all []uint32, err error) {
	for _, r := range s.Rules {
		if r.IPv6 != ipv6 {
			continue
		}
		counts, err := asked(s, r)
		if err != nil {
			return nil, err
		}
		if !counts {
			continue
		}
		if r.Action != state.Lookup {
			return all, nil // nothing behind it is reached
		}
		all = append(all, r.Table)
	}
	if len(all) >= lowest-1 {
		return nil, fmt.Errorf("more than %d rules look into tables", lowest-2)
	}
	return all, nil
}

// asked reports whether a rule affects forwarded packets. A rule with further matches than the
// destination is an error: offloaded packets would bypass it.
func asked(s *state.State, r state.Rule) (bool, error) {
	family := "IPv4"
	if r.IPv6 {
		family = "IPv6"
	}
	refuse := func(what string) (bool, error) {
		return false, fmt.Errorf("the %s rule of priority %d matches by %s, but offload matches only the destination", family, r.Priority, what)
	}
	switch {
	case r.Other == "l3mdev", r.Out != "", r.In == "lo":
		return false, nil // for VRFs, which are rejected, or for local packets
	case r.Other != "":
		return refuse(r.Other)
	case r.Inverted:
		return refuse("negation (not)")
	case r.From.IsValid() && r.From.Bits() > 0:
		return refuse("the source " + r.From.String())
	case r.To.IsValid() && r.To.Bits() > 0:
		return refuse("the destination " + r.To.String() + " before the table")
	case r.In != "":
		return refuse("the device " + r.In)
	case r.Suppress >= 0:
		return refuse("suppress_prefixlength")
	}
	for to, e := range s.Tables[r.Table] {
		if e.Best.Type == state.Throw && to.Addr().Is6() == r.IPv6 {
			return false, fmt.Errorf("%s in table %d is a throw route, which a fast path does not have", to, r.Table)
		}
	}
	return true, nil
}
