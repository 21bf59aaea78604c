// SPDX-License-Identifier: Apache-2.0

package class

import (
	"net/netip"
	"testing"
	"weir/internal/dscp"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"

	"weir/core/match"
	"weir/core/module"
	"weir/core/policy"
	"weir/kernel/testutil"
)

// datagram is a UDP datagram between two hosts with an Ethernet header.
func datagram(from, to string, dscp dscp.DSCP) []byte {
	frame, tos := make([]byte, 14), byte(dscp<<2)
	source, destination := netip.MustParseAddr(from), netip.MustParseAddr(to)
	ip := make([]byte, 20)
	if source.Is4() {
		frame[12], frame[13] = 0x08, 0x00
		ip[0], ip[1], ip[8], ip[9] = 0x45, tos, 64, 17
		copy(ip[12:], source.AsSlice())
		copy(ip[16:], destination.AsSlice())
	} else {
		frame[12], frame[13] = 0x86, 0xdd
		ip = make([]byte, 40)
		ip[0], ip[1], ip[6], ip[7] = 0x60|tos>>4, tos<<4, 17, 64
		copy(ip[8:], source.AsSlice())
		copy(ip[24:], destination.AsSlice())
	}
	return append(append(frame, ip...), 0, 9, 0, 9, 0, 8, 0, 0, 0, 0, 0, 0)
}

// BenchmarkMark reports the time of one packet in a BPF test run, of the ingress program, which
// stores the requested DSCP, and of the egress program, which marks with it. Packets have no
// socket, like forwarded ones, so prefixes select the scopes. An empty program shows the cost of
// the test run itself.
func BenchmarkMark(b *testing.B) {
	testutil.NeedRoot(b)
	const asks, asks6, here, here6 = "198.51.100.9", "2001:db8:51::9", "192.0.2.9", "2001:db8:9::9"
	m, err := loadMarker(2, true)
	must(b, err)
	defer func() { _ = m.close() }()
	state := module.State{}
	for i, scope := range []struct {
		prefix string
		of     Treatment
	}{
		{asks + "/32", Treatment{Class: asAsked, Asked: []dscp.DSCP{dscp.LowEffort, dscp.Scavenger}}}, {asks6 + "/128", Treatment{Class: asAsked, Asked: []dscp.DSCP{dscp.LowEffort, dscp.Scavenger}}},
	} {
		bound := module.Bound{Index: i, Treatment: &scope.of, Scope: policy.Scope{Name: scope.prefix, Treatments: map[string]policy.Treatment{moduleName: &scope.of}}}
		bound.Binding.Key = match.OfPrefix(netip.MustParsePrefix(scope.prefix))
		state.Scopes = append(state.Scopes, bound)
	}
	must(b, m.fill(module.State{}, state, match.Key{}))
	empty, err := ebpf.NewProgram(&ebpf.ProgramSpec{Type: ebpf.SchedCLS, License: "GPL", Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, -1), asm.Return()}})
	must(b, err)
	defer func() { _ = empty.Close() }()
	for _, c := range []struct {
		name    string
		program *ebpf.Program
		frame   []byte
	}{
		{"nothing", empty, datagram(here, asks, dscp.BestEffort)},
		{"ask/best_effort/IPv4", m.ask, datagram("203.0.113.1", here, dscp.BestEffort)},
		{"ask/best_effort/IPv6", m.ask, datagram("2001:db8:3::1", here6, dscp.BestEffort)},
		{"ask/known/IPv4", m.ask, datagram(asks, here, dscp.LowEffort)},
		{"ask/known/IPv6", m.ask, datagram(asks6, here6, dscp.LowEffort)},
		{"mark/no_scope/IPv4", m.program, datagram(here, "203.0.113.1", dscp.BestEffort)},
		{"mark/no_scope/IPv6", m.program, datagram(here6, "2001:db8:3::1", dscp.BestEffort)},
		{"mark/as_asked/IPv4", m.program, datagram(here, asks, dscp.BestEffort)},
		{"mark/as_asked/IPv6", m.program, datagram(here6, asks6, dscp.BestEffort)},
	} {
		b.Run(c.name, func(b *testing.B) {
			const repeat = 100_000
			_, took, err := c.program.Benchmark(c.frame, repeat, func() {})
			must(b, err)
			b.ReportMetric(float64(took.Nanoseconds()), "ns/packet")
			b.ReportMetric(0, "ns/op")
		})
	}
	for i, name := range []string{asks, asks6} {
		if n, err := m.counts(i); err != nil || n.Marked == 0 {
			b.Errorf("%s: %+v, %v: nothing was marked, and the figures are of something else", name, n, err)
		}
	}
}
