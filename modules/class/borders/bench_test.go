// SPDX-License-Identifier: Apache-2.0

package borders

import (
	"encoding/binary"
	"net/netip"
	"testing"
	"weir/internal/dscp"

	"weir/kernel/device"
	"weir/kernel/testutil"
)

// packet is a datagram between two hosts with a DSCP.
func packet(source string, dscp dscp.DSCP) []byte {
	tos := byte(dscp << 2)
	frame := make([]byte, 14, 94)
	from := netip.MustParseAddr(source)
	if from.Is4() {
		frame[12], frame[13] = 0x08, 0x00
		ip := make([]byte, 60)
		ip[0], ip[1], ip[8], ip[9] = 0x45, tos, 64, 17
		copy(ip[12:], from.AsSlice())
		copy(ip[16:], []byte{192, 0, 2, 1})
		binary.BigEndian.PutUint16(ip[10:], ^onesComplement(ip[:20]))
		return append(frame, ip...)
	}
	frame[12], frame[13] = 0x86, 0xdd
	ip := make([]byte, 80)
	ip[0], ip[1], ip[6], ip[7] = 0x60|tos>>4, tos<<4, 17, 64
	copy(ip[8:], from.AsSlice())
	copy(ip[24:], netip.MustParseAddr("2001:db8:9::1").AsSlice())
	return append(frame, ip...)
}

// prefixes is a border with a number of prefixes of each family; the first matches the packets.
func prefixes(n int) *Treatment {
	t := &Treatment{Device: "eth0"}
	for i := range n {
		t.From = append(t.From, Rule{Prefix: netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(i >> 8), byte(i), 0}), 24), Class: "lbe", DSCP: dscp.LowEffort},
			Rule{Prefix: netip.PrefixFrom(netip.AddrFrom16([16]byte{0x20, 1, 0xd, 0xb8, byte(i >> 8), byte(i)}), 48), Class: "lbe", DSCP: dscp.LowEffort})
	}
	return t
}

// BenchmarkBorder reports the time of one packet in a BPF test run. The first run changes a packet
// that is marked, later runs find it marked; with two classes translated into each other every run
// writes.
func BenchmarkBorder(b *testing.B) {
	testutil.NeedRoot(b)
	swap := &Treatment{Translate: []Pair{{Here: dscp.LowEffort, Beyond: dscp.Scavenger}, {Here: dscp.Scavenger, Beyond: dscp.LowEffort}}}
	both := prefixes(1)
	both.Translate = swap.Translate
	for _, s := range []struct {
		name   string
		border *Treatment
		hook   device.Hook
		dscp   dscp.DSCP
	}{
		{"nothing_to_change", swap, device.Egress, dscp.BestEffort},
		{"translated", swap, device.Egress, dscp.LowEffort},
		{"1_prefix", prefixes(1), device.Ingress, dscp.LowEffort},
		{"1000_prefixes", prefixes(1000), device.Ingress, dscp.LowEffort},
		{"30000_prefixes", prefixes(30_000), device.Ingress, dscp.LowEffort},
		{"prefix_and_translation", both, device.Ingress, dscp.LowEffort},
	} {
		objects, err := s.border.load(14, nil)
		must(b, err)
		for name, frame := range map[string][]byte{"IPv4": packet("10.0.0.9", s.dscp), "IPv6": packet("2001:db8::9", s.dscp)} {
			b.Run(s.name+"/"+name, func(b *testing.B) {
				const repeat = 100_000
				_, took, err := objects.at(s.hook).Benchmark(frame, repeat, func() {})
				must(b, err)
				b.ReportMetric(float64(took.Nanoseconds()), "ns/packet")
				b.ReportMetric(0, "ns/op")
			})
		}
		must(b, objects.Close())
	}
}
