// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"fmt"
	"net/netip"
	"testing"

	kernel "weir/internal/kernel/flower"
	"weir/internal/kernel/probe"
	"weir/internal/kernel/tc"
	"weir/internal/testutil"
	"weir/offload/live"
	"weir/offload/plan"
	"weir/offload/xdp"
)

// BenchmarkOffloadRules is what a packet costs that filters of tc flower in software forward, by
// how many there are: each of a priority of its own, the one that matches last, or all of one
// priority and told apart by their handles. Frames are those of BenchmarkOffloadRate, to one
// destination.
func BenchmarkOffloadRules(b *testing.B) {
	testutil.Need(b, "flower", probe.Classifier("flower"))
	o := offloadBenchOf(b, nil)
	s, err := live.Read(o.router)
	if err != nil {
		b.Fatal(err)
	}
	o.p0, _ = s.Find("p0")
	o.p1, _ = s.Find("p1")
	o.routes = []netip.Prefix{netip.MustParsePrefix("203.0.113.7/32")}
	p, err := plan.New(plan.Policy{From: []string{"p0", "p1"}, IPv4: true}, s)
	if err != nil {
		b.Fatal(err)
	}
	table, err := xdp.New(o.router, p)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(table.Close)
	o.load(b, table.Blocks())
	sink := attach(b, o.right, o.r.Index, o.programs.Programs["load_sink"])
	defer func() { _ = sink.Close() }()
	if err := o.programs.Maps["load_forwarder"].Put(uint32(0), o.programs.Programs["load_kernel"]); err != nil {
		b.Fatal(err)
	}
	for _, shape := range []struct {
		name   string
		counts []int
	}{{"priorities", []int{1, 10, 30, 70, 100, 300, 1000}}, {"handles", []int{1, 10, 100, 1000, 10_000, 100_000}}} {
		for _, n := range shape.counts {
			b.Run(fmt.Sprintf("%s/%d", shape.name, n), func(b *testing.B) {
				for range b.N {
					rulesAt(b, o, shape.name == "priorities", n)
					o.run(b, "flower", 256) // warm
					b.ReportMetric(o.run(b, "flower", 2048), "ns/packet")
				}
			})
		}
	}
}

// rulesAt gives the router's port so many rules, of which the last one forwards.
func rulesAt(b *testing.B, o *offloadBench, priorities bool, n int) {
	b.Helper()
	control, err := tc.Open(o.router)
	if err != nil {
		b.Fatal(err)
	}
	defer control.Close()
	_ = control.Delete("p0", tc.Place{Parent: tc.Clsact}) // of the round before
	if err := control.AddClsact("p0"); err != nil {
		b.Fatal(err)
	}
	conn, err := kernel.Open(o.router, o.p0.Index, kernel.SkipHardware)
	if err != nil {
		b.Fatal(err)
	}
	defer conn.Close()
	for i := range n {
		r := kernel.Rule{Priority: 1, Handle: uint32(1 + i), Protocol: -1, Dst: netip.PrefixFrom(netip.AddrFrom4([4]byte{198, byte(16 + i>>16), byte(i >> 8), byte(i)}), 32)}
		if priorities {
			r.Priority = uint16(1 + i)
		}
		if i == n-1 {
			r.Dst = o.routes[0]
			r.Forward = &kernel.Forward{Device: o.p1.Index, Src: o.p1.MAC, Dst: [6]byte{2, 0, 0, 0, 0, 2}}
		}
		if err := conn.Add(r); err != nil {
			b.Fatal(err)
		}
	}
	if err := conn.Flush(); err != nil {
		b.Fatal(err)
	}
}
