// SPDX-License-Identifier: Apache-2.0

package simulate

import (
	"fmt"
	"iter"
	"net/netip"
	"slices"

	"weir/modules/offload/state"
)

// Difference is an address with different treatments by the fast path and the kernel.
type Difference struct {
	Address netip.Addr
	Fate    Fate
	Kernel  []Way // nil for the CPU
	Fast    []Way // nil for the CPU
}

// Like reports whether another difference is the same.
func (d Difference) Like(other Difference) bool { return d.String() == other.String() }

// Harmful reports whether packets go astray. Packets left to the CPU are only slower.
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

// Fast returns the ways of a fast path for an address; nil for the CPU.
type Fast func(netip.Addr) []Way

// Expect reduces the kernel's ways to those that a fast path should use; nil for the CPU.
type Expect func(netip.Addr, []Way) []Way

// Check compares a fast path with the kernel at every given address. It returns at most a number of
// differences, the number of checked addresses, and the number that the fast path forwards. With
// partly the fast path may leave any address to the CPU.
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
		d := Difference{a, f.Fate(a), kernel, ways}
		if slices.ContainsFunc(found, d.Like) {
			continue
		}
		if found = append(found, d); len(found) >= most {
			break
		}
	}
	return found, looked, forwarded
}

// Boundaries returns the addresses at which decisions can change: first and last of every prefix,
// and those next to them.
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

// Last returns the last address of a prefix.
func Last(p netip.Prefix) netip.Addr {
	b := p.Addr().AsSlice()
	for i := p.Bits(); i < 8*len(b); i++ {
		b[i/8] |= 0x80 >> (i % 8)
	}
	a, _ := netip.AddrFromSlice(b)
	return a
}

// Prefixes returns all prefixes of routes and neighbours of a state.
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
