// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"os"
	"testing"
	"time"

	"github.com/cilium/ebpf"

	kernel "weir/kernel/flower"
	"weir/kernel/probe"
	"weir/kernel/tc"
	"weir/kernel/testutil"
	"weir/modules/offload/flower"
	"weir/modules/offload/plan"
	"weir/modules/offload/state"
	"weir/modules/offload/xdp"
	"weir/record"
	"weir/record/plot"
)

// BenchmarkOffloadRules reports the cost of a packet forwarded by tc flower filters in software, by
// their number: each with its own priority, the last one matching, or all with one priority and
// different handles. Frames are those of BenchmarkOffloadRate, to one destination.
func BenchmarkOffloadRules(b *testing.B) {
	testutil.Need(b, "flower", probe.Classifier("flower"))
	o := offloadBenchOf(b, nil)
	s := o.read(b)
	o.routes = []netip.Prefix{netip.MustParsePrefix("203.0.113.7/32")}
	table := o.table(b, s)
	o.load(b, table.Blocks())
	sink := attach(b, o.right, o.r.Index, o.programs.Programs["load_sink"])
	defer func() { _ = sink.Close() }()
	if err := o.programs.Maps["load_forwarder"].Put(uint32(0), o.programs.Programs["load_kernel"]); err != nil {
		b.Fatal(err)
	}
	costs := map[string][][2]float64{} // rules and nanoseconds, by shape
	for _, shape := range []struct {
		name   string
		counts []int
	}{{"priorities", []int{1, 10, 30, 70, 100, 300, 1000}}, {"handles", []int{1, 10, 100, 1000, 10_000, 100_000}}} {
		for _, n := range shape.counts {
			b.Run(fmt.Sprintf("%s/%d", shape.name, n), func(b *testing.B) {
				for range b.N {
					rulesAt(b, o, shape.name == "priorities", n)
					o.run(b, "flower", 256) // warm up
					cost := o.run(b, "flower", 2048)
					b.ReportMetric(cost, "ns/packet")
					costs[shape.name] = append(costs[shape.name], [2]float64{float64(n), cost})
				}
			})
		}
	}
	drawRules(b, costs)
}

// drawRules draws the rate over the number of rules, into the PNG named by WEIR_PLOT.
func drawRules(b *testing.B, costs map[string][][2]float64) {
	b.Helper()
	name := os.Getenv("WEIR_PLOT")
	if name == "" {
		return
	}
	f := record.Figure{Name: "offload-rules", Title: "Rules of tc flower in software against forwarding rate", Kind: record.Lines, LogX: true,
		Subtitle: "one core; the rate with one rule is 100 %", XLabel: "rules", XUnit: record.Count, YLabel: "rate", YUnit: record.Share}
	for _, shape := range []string{"priorities", "handles"} {
		curve := record.Curve{Name: "told apart by " + shape}
		for _, at := range costs[shape] {
			curve.X, curve.Y = append(curve.X, at[0]), append(curve.Y, costs[shape][0][1]/at[1])
		}
		f.Curves = append(f.Curves, curve)
	}
	file, err := os.Create(name)
	if err != nil {
		b.Fatal(err)
	}
	if err := errors.Join(plot.PNG(file, f), file.Close()); err != nil {
		b.Fatal(err)
	}
}

// BenchmarkOffloadFilters reports the cost of a packet to a random destination, forwarded by a
// plan's tc flower filters in software and by XDP, by the number of routes.
func BenchmarkOffloadFilters(b *testing.B) {
	testutil.Need(b, "flower", probe.Classifier("flower"))
	routes := fullTable(b)
	rand.New(rand.NewPCG(7, 8)).Shuffle(len(routes), func(i, j int) { routes[i], routes[j] = routes[j], routes[i] })
	for _, n := range []int{100, 10_000, 100_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			for range b.N {
				o := offloadBenchOf(b, nil)
				s := o.read(b)
				o.routes = routes[:n]
				for i, to := range o.routes {
					at := netip.AddrFrom4([4]byte{10, 2, 0, byte(2 + i%offloadHops)})
					s.Put(state.MainTable, to, state.Route{Type: state.Unicast, Group: s.GroupOf([]state.Hop{{Link: o.p1.Index, Via: at, Weight: 1}})})
				}
				p, err := plan.New(plan.Policy{From: []string{"p0"}, To: []string{"p1"}, IPv4: true}, s)
				if err != nil {
					b.Fatal(err)
				}
				table, err := xdp.New(o.router, p)
				if err != nil {
					b.Fatal(err)
				}
				filters, err := flower.Attach(o.router, p, kernel.SkipHardware, time.Hour)
				if err != nil {
					b.Fatal(err)
				}
				if err := table.Renew(time.Hour); err != nil {
					b.Fatal(err)
				}
				o.load(b, table.Blocks())
				sink := attach(b, o.right, o.r.Index, o.programs.Programs["load_sink"])
				for name, program := range map[string]*ebpf.Program{"flower": o.programs.Programs["load_kernel"], "xdp": o.fastProgram(b, table)} {
					if err := o.programs.Maps["load_forwarder"].Put(uint32(0), program); err != nil {
						b.Fatal(err)
					}
					o.run(b, name, 256) // warm up
					b.ReportMetric(o.run(b, name, 2048), name+"-ns/packet")
				}
				_ = sink.Close()
				filters.Close()
				table.Close()
			}
		})
	}
}

// rulesAt gives the router's port n rules; the last one forwards.
func rulesAt(b *testing.B, o *offloadBench, priorities bool, n int) {
	b.Helper()
	control, err := tc.Open(o.router)
	if err != nil {
		b.Fatal(err)
	}
	defer control.Close()
	_ = control.Delete("p0", tc.Place{Parent: tc.Clsact}) // of the previous round
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
