// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"net/netip"
	"runtime"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"weir/kernel/probe"
	"weir/kernel/testutil"
	"weir/modules/offload/plan"
	"weir/modules/offload/state"
	"weir/modules/offload/xdp"
)

// paperRouter has a full table of prefixes, without a kernel.
func paperRouter(b *testing.B) (*state.State, []netip.Prefix, func(i int) state.Group) {
	b.Helper()
	s := state.New()
	s.Links[1] = state.Link{Index: 1, Name: "lo", MAC: state.MAC{2}, MTU: 1500, Up: true, Lower: true, Ethernet: true, Forward4: true}
	s.Rules = []state.Rule{{Action: state.Lookup, Table: state.MainTable, Suppress: -1}}
	group := func(i int) state.Group {
		at := netip.AddrFrom4([4]byte{10, 2, 0, byte(2 + i%offloadHops)})
		s.Neighbors[state.Where{Link: 1, At: at}] = state.Neighbor{MAC: state.MAC{2, 0, 0, 0, 0, byte(i)}, Valid: true}
		return s.GroupOf([]state.Hop{{Link: 1, Via: at, Weight: 1}})
	}
	routes := fullTable(b)
	for i, to := range routes {
		s.Put(state.MainTable, to, state.Route{Type: state.Unicast, Group: group(i * 7919)})
	}
	return s, routes, group
}

// spent returns the CPU time of this process.
func spent(b *testing.B) time.Duration {
	b.Helper()
	var usage unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &usage); err != nil {
		b.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// BenchmarkOffloadPlan reports the CPU time of planning and aggregating a full table with random
// next hops, the worst case of aggregation.
func BenchmarkOffloadPlan(b *testing.B) {
	s, routes, _ := paperRouter(b)
	var planned, aggregated []float64
	rules := 0
	for range b.N {
		runtime.GC()
		before := spent(b)
		p, err := plan.New(plan.Policy{From: []string{"lo"}, IPv4: true}, s)
		if err != nil {
			b.Fatal(err)
		}
		between := spent(b)
		rules = len(p.Aggregate(netip.PrefixFrom(netip.IPv4Unspecified(), 0), plan.CPU))
		planned, aggregated = append(planned, (between-before).Seconds()), append(aggregated, (spent(b)-between).Seconds())
	}
	b.ReportMetric(median(planned), "plan-cpu-s")
	b.ReportMetric(median(aggregated), "aggregate-cpu-s")
	b.ReportMetric(float64(rules)/float64(len(routes)), "rules/route")
}

// BenchmarkOffloadUpdate reports the time from a change of 100 routes of a full table to the
// programs' table.
func BenchmarkOffloadUpdate(b *testing.B) {
	testutil.Need(b, "XDP on veth", probe.XDPNative())
	s, routes, group := paperRouter(b)
	p, err := plan.New(plan.Policy{From: []string{"lo"}, IPv4: true}, s)
	if err != nil {
		b.Fatal(err)
	}
	table, err := xdp.New(nil, p)
	if err != nil {
		b.Fatal(err)
	}
	defer table.Close()
	var took []float64
	const changes = 100
	for round := range 50 * b.N {
		begin := time.Now()
		some := make([]netip.Prefix, 0, changes)
		for i := range changes {
			to := routes[(round*104_729+i*15_485_863)%len(routes)]
			s.Put(state.MainTable, to, state.Route{Type: state.Unicast, Group: group(round + i)})
			p.Route(to)
			some = append(some, to)
		}
		if err := table.Update(some, nil); err != nil {
			b.Fatal(err)
		}
		took = append(took, float64(time.Since(begin).Microseconds())/1000)
	}
	slices.Sort(took)
	b.ReportMetric(took[len(took)/2], "median-ms/100")
	b.ReportMetric(took[len(took)*95/100], "p95-ms/100")
	b.ReportMetric(float64(table.Memory()>>20), "table-MiB")
}
