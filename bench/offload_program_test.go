// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"net/netip"
	"testing"

	"github.com/cilium/ebpf"

	"weir/modules/offload/state"
)

// BenchmarkOffloadProgram reports the cost of the fast path's program for a forwarded packet to a
// /24 route, without the kernel's action on its verdict: in the guest with an instruction clock,
// the number of instructions.
func BenchmarkOffloadProgram(b *testing.B) {
	o := offloadBenchOf(b, nil)
	s := o.read(b)
	o.routes = []netip.Prefix{netip.MustParsePrefix("100.64.1.0/24")}
	s.Put(state.MainTable, o.routes[0], state.Route{Type: state.Unicast, Group: s.GroupOf([]state.Hop{{Link: o.p1.Index, Via: netip.AddrFrom4([4]byte{10, 2, 0, 2}), Weight: 1}})})
	table := o.table(b, s)
	o.load(b, table.Blocks())
	const drop, redirect = 1, 4
	cost := func(forwarder *ebpf.Program, verdict uint32) float64 {
		if err := o.programs.Maps["load_forwarder"].Put(uint32(0), forwarder); err != nil {
			b.Fatal(err)
		}
		const runs = 200_000
		got, took, err := o.programs.Programs["load_source"].Benchmark(make([]byte, 60), runs, nil)
		if err != nil {
			b.Fatal(err)
		}
		if got != verdict {
			b.Fatalf("the verdict is %d, want %d", got, verdict)
		}
		return float64(took.Nanoseconds())
	}
	fast := o.fastProgram(b, table)
	var costs []float64
	for range b.N {
		costs = append(costs, cost(fast, redirect)-cost(o.programs.Programs["load_nobody"], drop))
	}
	b.ReportMetric(median(costs), "ns/packet")
}
