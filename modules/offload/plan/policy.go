// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"net/netip"

	"weir/modules/offload/state"
)

// Multipath is what becomes of routes with several ways.
type Multipath string

const (
	// Split chooses by a hash of the addresses, constant for a flow and in the proportion of the
	// weights. It is not the kernel's hash: a flow may take another of its ways than by the CPU.
	Split Multipath = "split"
	// Leave leaves them to the CPU.
	Leave Multipath = "cpu"
)

// Policy is what may be offloaded.
type Policy struct {
	From []string // links whose packets are offloaded
	To   []string // links that they may leave by; empty is From
	// Table has the prefixes that may be offloaded; how they are forwarded is what the kernel's own
	// tables say. 0 is all.
	Table     uint32
	Except    []netip.Prefix // destinations left to the CPU
	Multipath Multipath      // "" is Split
	IPv4      bool
	IPv6      bool
}

// MaxHops is how many ways a route may have; those with more are the CPU's.
const MaxHops = 16

// exceptions are destinations that are never forwarded by their route alone: what is not unicast,
// and what belongs to a link or to this host.
func exceptions() (all []netip.Prefix) {
	for _, text := range []string{
		"0.0.0.0/8", "127.0.0.0/8", "169.254.0.0/16", "224.0.0.0/4", "255.255.255.255/32",
		"::/96", "::ffff:0:0/96", "fe80::/10", "ff00::/8",
	} {
		all = append(all, netip.MustParsePrefix(text))
	}
	return all
}

// layers are the tables that the kernel asks, in its order.
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

// asked says whether a rule matters to packets that are forwarded. One that decides by more than
// the destination is an error: offloaded packets would not be asked for it.
func asked(s *state.State, r state.Rule) (bool, error) {
	family := "IPv4"
	if r.IPv6 {
		family = "IPv6"
	}
	refuse := func(what string) (bool, error) {
		return false, fmt.Errorf("the %s rule of priority %d decides by %s, and what is offloaded is told by its destination alone", family, r.Priority, what)
	}
	switch {
	case r.Other == "l3mdev", r.Out != "", r.In == "lo":
		return false, nil // of VRFs, whose links are refused, or of what this host sends
	case r.Other != "":
		return refuse(r.Other)
	case r.Inverted:
		return refuse("what it does not match (not)")
	case r.From.IsValid() && r.From.Bits() > 0:
		return refuse("the source " + r.From.String())
	case r.To.IsValid() && r.To.Bits() > 0:
		return refuse("the destination " + r.To.String() + " before the table")
	case r.In != "":
		return refuse("the device " + r.In)
	case r.Suppress >= 0:
		return refuse("the length of what matches (suppress_prefixlength)")
	}
	for to, e := range s.Tables[r.Table] {
		if e.Best.Type == state.Throw && to.Addr().Is6() == r.IPv6 {
			return false, fmt.Errorf("%s in table %d is a throw route, which a fast path does not have", to, r.Table)
		}
	}
	return true, nil
}
