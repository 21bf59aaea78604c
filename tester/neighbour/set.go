// SPDX-License-Identifier: Apache-2.0

package neighbour

import (
	"net/netip"

	"weir/tester"
)

// Set is the addresses of one port's streams, each with its VLAN. The zero value is empty.
type Set struct {
	patterns []pattern
	own      map[netip.Addr]bool // addresses for which the kernel itself answers
}

// pattern is an address and the bits of it that a stream's modifiers change.
type pattern struct {
	vlan       uint16 // 0 is untagged
	base, free [16]byte
	four       bool
}

// End selects an address of a stream: the one of the sending port or of the receiving port.
type End int

const (
	Source End = iota
	Destination
)

// Add adds the addresses of a stream's frames at one end, including all values of modifiers.
func (s *Set) Add(stream tester.Stream, end End) {
	h := stream.Header
	address, at := h.Source, 12
	if end == Destination {
		address, at = h.Destination, 16
	}
	if !address.IsValid() || address.IsUnspecified() || address.IsMulticast() {
		return
	}
	if address.Is6() {
		at = map[End]int{Source: 8, Destination: 24}[end]
	}
	at += 14
	if h.VLAN != 0 {
		at += 4
	}
	p := pattern{vlan: uint16(h.VLAN), four: address.Is4()}
	size := copy(p.base[:], address.AsSlice())
	for _, m := range stream.Modifiers {
		for i, mask := range m.Mask {
			if place := m.Offset + i - at; place >= 0 && place < size {
				p.free[place] |= mask
			}
		}
	}
	for i := range p.base {
		p.base[i] &^= p.free[i]
	}
	for _, have := range s.patterns {
		if have == p {
			return
		}
	}
	s.patterns = append(s.patterns, p)
}

// Leave excludes addresses for which the kernel answers.
func (s *Set) Leave(own ...netip.Addr) {
	if s.own == nil {
		s.own = map[netip.Addr]bool{}
	}
	for _, a := range own {
		s.own[a] = true
	}
}

// Empty reports that no stream has an address at this port.
func (s *Set) Empty() bool { return len(s.patterns) == 0 }

// Has reports whether the port answers for an address in a VLAN.
func (s *Set) Has(a netip.Addr, vlan uint16) bool {
	if s.own[a] {
		return false
	}
	var octets [16]byte
	copy(octets[:], a.AsSlice())
	for _, p := range s.patterns {
		if p.four == a.Is4() && p.vlan == vlan && p.matches(octets) {
			return true
		}
	}
	return false
}

func (p *pattern) matches(octets [16]byte) bool {
	for i := range octets {
		if octets[i]&^p.free[i] != p.base[i] {
			return false
		}
	}
	return true
}
