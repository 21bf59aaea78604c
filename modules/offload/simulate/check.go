// SPDX-License-Identifier: Apache-2.0

package simulate

import (
	"fmt"
	"iter"
	"net/netip"
	"slices"

	"weir/modules/offload/state"
)

// Difference is an address that a fast path treats as the kernel would not.
type Difference struct {
	Address netip.Addr
	Fate    Fate
	Kernel  []Way // nil: the CPU decides
	Fast    []Way // nil: it is left to the CPU
}

// Harmful says whether packets go astray: what is left to the CPU is only slow.
func (d Difference) Harmful() bool { return d.Fast != nil }

func (d Difference) String() string {
	return fmt.Sprintf("packet to %s: the kernel (%s, table %d) %s, the fast path %s", d.Address, d.Fate.To, d.Fate.Table, words(d.Kernel), words(d.Fast))
}

func words(all []Way) string {
	if all == nil {
		return "takes it to the CPU"
	}
	text := "sends it"
	for i, w := range all {
		if i > 0 {
			text += " or"
		}
		text += fmt.Sprintf(" by link %d to %s from %s, MTU %d", w.Link, w.Dst, w.Src, w.MTU)
	}
	return text
}

// Fast is what a fast path does with packets to an address: the ways that it may take, or nil for
// the CPU.
type Fast func(netip.Addr) []Way

// Expect says what of the kernel's ways a fast path should take; nil for the CPU.
type Expect func(netip.Addr, []Way) []Way

// Check compares a fast path with the kernel at every address given. It returns what differs, at
// most a number of them, how many addresses were looked at, and how many of them the fast path
// forwards. partly says that it may leave to the CPU whatever it likes.
func (f *FIB) Check(addresses iter.Seq[netip.Addr], fast Fast, expect Expect, partly bool, most int) (found []Difference, looked, forwarded int) {
	for a := range addresses {
		looked++
		kernel := f.Ways(a)
		if expect != nil {
			kernel = expect(a, kernel)
		}
		ways := fast(a)
		if ways != nil {
			forwarded++
		}
		if slices.Equal(kernel, ways) || partly && ways == nil {
			continue
		}
		if found = append(found, Difference{a, f.Fate(a), kernel, ways}); len(found) >= most {
			break
		}
	}
	return found, looked, forwarded
}

// Boundaries are the addresses at which decisions can change: the first and the last of every
// prefix, and those next to them.
func Boundaries(prefixes iter.Seq[netip.Prefix]) iter.Seq[netip.Addr] {
	return func(yield func(netip.Addr) bool) {
		for p := range prefixes {
			first, last := p.Masked().Addr(), Last(p)
			for _, a := range []netip.Addr{first.Prev(), first, last, last.Next()} {
				if a.IsValid() && a.Is4() == p.Addr().Is4() && !yield(a) {
					return
				}
			}
		}
	}
}

// Last is the last address of a prefix.
func Last(p netip.Prefix) netip.Addr {
	b := p.Addr().AsSlice()
	for i := p.Bits(); i < 8*len(b); i++ {
		b[i/8] |= 0x80 >> (i % 8)
	}
	a, _ := netip.AddrFromSlice(b)
	return a
}

// Prefixes are all that a state speaks of: of routes, own addresses, and neighbours.
func Prefixes(s *state.State) iter.Seq[netip.Prefix] {
	return func(yield func(netip.Prefix) bool) {
		for _, table := range s.Tables {
			for to := range table {
				if !yield(to) {
					return
				}
			}
		}
		for at := range s.Neighbors {
			if !yield(netip.PrefixFrom(at.At, at.At.BitLen())) {
				return
			}
		}
	}
}
