// SPDX-License-Identifier: Apache-2.0

package links

import (
	"encoding/binary"
	"slices"
	"testing"

	"weir/kernel/testutil"
)

// Builders of packets, from the outside in.

func frame(kind uint16, inner ...byte) []byte {
	b := append(make([]byte, 12), byte(kind>>8), byte(kind))
	return append(b, inner...)
}

func tag(kind uint16, inner ...byte) []byte {
	return append([]byte{0, 7, byte(kind >> 8), byte(kind)}, inner...)
}

func ip4(dscp, protocol byte, inner ...byte) []byte {
	b := make([]byte, 20)
	b[0], b[1], b[8], b[9] = 0x45, dscp<<2|1, 64, protocol
	binary.BigEndian.PutUint16(b[2:], uint16(20+len(inner)))
	return append(b, inner...)
}

func ip4Options(dscp, protocol byte, inner ...byte) []byte {
	b := ip4(dscp, protocol)
	b[0] = 0x46
	return append(append(b, 1, 1, 1, 0), inner...)
}

func fragment(b []byte) []byte {
	b = slices.Clone(b)
	b[7] = 3
	return b
}

func ip6(dscp, next byte, inner ...byte) []byte {
	b := make([]byte, 40)
	b[0], b[1], b[6], b[7] = 0x60|dscp>>2, dscp<<6|0x20|0x0f, next, 64
	binary.BigEndian.PutUint16(b[4:], uint16(len(inner)))
	return append(b, inner...)
}

func gre(flags byte, kind uint16, inner ...byte) []byte {
	b := []byte{flags, 0, byte(kind >> 8), byte(kind)}
	for _, bit := range []byte{0x80, 0x20, 0x10} {
		if flags&bit != 0 {
			b = append(b, 0, 0, 0, 0)
		}
	}
	return append(b, inner...)
}

func udp(port uint16, inner ...byte) []byte {
	return append([]byte{1, 2, byte(port >> 8), byte(port), 0, 0, 0, 0}, inner...)
}

func vxlan(inner ...byte) []byte { return append([]byte{8, 0, 0, 0, 0, 0, 1, 0}, inner...) }

func TestPacketsAreToldByTheirDSCP(t *testing.T) {
	testutil.NeedRoot(t)
	link := &Treatment{Rate: 1e9, Classes: preset(Own)}
	program, _, err := link.load(false)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = program.Close() }()
	const v4, v6, q, ad = 0x0800, 0x86dd, 0x8100, 0x88a8
	pad := make([]byte, 40)
	for _, test := range []struct {
		description, class string
		packet             []byte
	}{
		{"IPv4 LE", "lbe", frame(v4, ip4(1, 17, pad...)...)},
		{"IPv4 CS1", "lbe", frame(v4, ip4(8, 6, pad...)...)},
		{"IPv4 EF", "premium", frame(v4, ip4(46, 17, pad...)...)},
		{"IPv4 CS6", "network-control", frame(v4, ip4(48, 17, pad...)...)},
		{"IPv4 CS7", "network-control", frame(v4, ip4(56, 17, pad...)...)},
		{"IPv4 best effort", "", frame(v4, ip4(0, 17, pad...)...)},
		{"IPv4 of no class", "", frame(v4, ip4(10, 17, pad...)...)},
		{"IPv6 LE", "lbe", frame(v6, ip6(1, 17, pad...)...)},
		{"IPv6 EF", "premium", frame(v6, ip6(46, 17, pad...)...)},
		{"IPv6 CS7", "network-control", frame(v6, ip6(56, 17, pad...)...)},
		{"IPv6 best effort", "", frame(v6, ip6(0, 17, pad...)...)},
		{"a tag in the packet", "lbe", frame(q, tag(v4, ip4(1, 17, pad...)...)...)},
		{"two tags, IPv6", "premium", frame(ad, tag(q, tag(v6, ip6(46, 17, pad...)...)...)...)},
		{"a tag and a tunnel", "lbe", frame(q, tag(v4, ip4(0, 4, ip4(1, 17, pad...)...)...)...)},
		{"IP in IP", "lbe", frame(v4, ip4(0, 4, ip4(1, 17, pad...)...)...)},
		{"IP in IP behind options", "lbe", frame(v4, ip4Options(0, 4, ip4(8, 17, pad...)...)...)},
		{"IPv6 in IPv4, premium", "", frame(v4, ip4(0, 41, ip6(46, 17, pad...)...)...)},
		{"IPv4 in IPv6", "lbe", frame(v6, ip6(0, 4, ip4(1, 17, pad...)...)...)},
		{"IPv6 in IPv6 behind Linux's option", "lbe", frame(v6, ip6(0, 60, append([]byte{41, 0, 4, 1, 4, 1, 1, 0}, ip6(1, 17, pad...)...)...)...)},
		{"GRE", "lbe", frame(v4, ip4(0, 47, gre(0, v4, ip4(1, 17, pad...)...)...)...)},
		{"GRE with all fields, over IPv6", "lbe", frame(v6, ip6(0, 47, gre(0xb0, v6, ip6(1, 17, pad...)...)...)...)},
		{"GRE with Ethernet", "lbe", frame(v4, ip4(0, 47, gre(0x20, 0x6558, frame(v4, ip4(1, 17, pad...)...)...)...)...)},
		{"GRE with something else", "", frame(v4, ip4(0, 47, gre(0, 0x880b, ip4(1, 17, pad...)...)...)...)},
		{"VXLAN", "lbe", frame(v4, ip4(0, 17, udp(4789, vxlan(frame(v4, ip4(1, 6, pad...)...)...)...)...)...)},
		{"VXLAN that asks for more than best effort", "", frame(v4, ip4(0, 17, udp(4789, vxlan(frame(v4, ip4(48, 6, pad...)...)...)...)...)...)},
		{"UDP that looks like it", "", frame(v4, ip4(0, 17, udp(4790, vxlan(frame(v4, ip4(1, 6, pad...)...)...)...)...)...)},
		{"the outer header decides", "premium", frame(v4, ip4(46, 4, ip4(1, 17, pad...)...)...)},
		{"an outer one of no class too", "", frame(v4, ip4(10, 4, ip4(1, 17, pad...)...)...)},
		{"a later fragment", "", frame(v4, fragment(ip4(0, 4, ip4(1, 17, pad...)...))...)},
		{"a later fragment's own", "lbe", frame(v4, fragment(ip4(1, 17, pad...))...)},
		{"a tunnel cut short", "", frame(v4, ip4(0, 47, 0, 0)...)},
		{"ARP", "", frame(0x0806, pad...)},
	} {
		want := uint32(0)
		for i, c := range link.Classes {
			if c.Name == test.class {
				want = uint32(handleOf(i))
			}
		}
		got, _, err := program.Test(test.packet)
		if err != nil || got != want {
			t.Errorf("%s: class %#x, %v, want %#x (%s)", test.description, got, err, want, test.class)
		}
	}
}
