// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"bufio"
	"fmt"
	"net/netip"
	"os"
	"runtime"
	"slices"
	"testing"
	"time"

	kernel "weir/kernel/flower"
	"weir/kernel/probe"
	"weir/kernel/testutil"
	"weir/modules/offload/flower"
	"weir/modules/offload/live"
	"weir/modules/offload/plan"
	"weir/modules/offload/state"
	"weir/modules/offload/xdp"
)

// BenchmarkOffloadInstall reports the time from a router's state to an active table, for filters of
// tc flower and for XDP, by stage, and the growth of the kernel's memory. The routes are only in
// the state, not in the kernel.
func BenchmarkOffloadInstall(b *testing.B) {
	testutil.Need(b, "XDP on veth", probe.XDPNative())
	routes := fullTable(b)
	for _, n := range []int{10_000, 100_000, len(routes)} {
		for _, backend := range []string{"xdp", "flower"} {
			b.Run(fmt.Sprintf("%s/%d", backend, n), func(b *testing.B) {
				if backend == "flower" {
					testutil.Need(b, "flower", probe.Classifier("flower"))
				}
				for range b.N {
					install(b, backend, routes[:n])
				}
			})
		}
	}
}

func install(b *testing.B, backend string, routes []netip.Prefix) {
	b.Helper()
	o := offloadBenchOf(b, nil)
	s, err := live.Read(o.router)
	if err != nil {
		b.Fatal(err)
	}
	p1, _ := s.Find("p1")
	group := func(i int) state.Group {
		return s.GroupOf([]state.Hop{{Link: p1.Index, Via: netip.AddrFrom4([4]byte{10, 2, 0, byte(2 + i%offloadHops)}), Weight: 1}})
	}
	for i, to := range routes {
		s.Put(state.MainTable, to, state.Route{Type: state.Unicast, Group: group(i * 7919)})
	}
	runtime.GC()
	free, begin, cpu := available(b), time.Now(), spent(b)
	lap := func(what string, scale float64) {
		b.ReportMetric(scale*time.Since(begin).Seconds(), what)
		b.ReportMetric(scale*(spent(b)-cpu).Seconds(), "cpu-"+what)
		begin, cpu = time.Now(), spent(b)
	}
	p, err := plan.New(plan.Policy{From: []string{"p0"}, To: []string{"p1"}, IPv4: true}, s)
	if err != nil {
		b.Fatal(err)
	}
	lap("plan-s", 1)
	var in interface {
		Update([]netip.Prefix, []plan.Decision) error
		Close()
	}
	if backend == "xdp" {
		in, err = xdp.New(o.router, p)
	} else {
		b.ReportMetric(float64(len(p.Aggregate(netip.PrefixFrom(netip.IPv4Unspecified(), 0), plan.CPU))), "rules")
		lap("aggregate-s", 1)
		in, err = flower.Attach(o.router, p, kernel.SkipHardware, time.Hour)
	}
	if err != nil {
		b.Fatal(err)
	}
	lap("install-s", 1)
	b.ReportMetric(float64(free-available(b))/1024, "MiB")
	const changes = 100
	var took []float64
	for round := range 21 {
		var some []netip.Prefix
		for i := range changes {
			to := routes[(round*104_729+i*15_485_863)%len(routes)]
			s.Put(state.MainTable, to, state.Route{Type: state.Unicast, Group: group(i + round)})
			p.Route(to)
			some = append(some, to)
		}
		begin := time.Now()
		if err := in.Update(some, nil); err != nil {
			b.Fatal(err)
		}
		took = append(took, 1000*time.Since(begin).Seconds())
	}
	slices.Sort(took)
	b.ReportMetric(took[len(took)/2], "update-ms/100")
	b.ReportMetric(took[len(took)-1], "longest-update-ms")
	in.Close()
}

// available returns the kernel's available memory, in KiB.
func available(b *testing.B) (kib int) {
	b.Helper()
	file, err := os.Open("/proc/meminfo")
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	for lines := bufio.NewScanner(file); lines.Scan(); {
		if n, _ := fmt.Sscanf(lines.Text(), "MemAvailable: %d kB", &kib); n == 1 {
			return kib
		}
	}
	b.Fatal("no MemAvailable")
	return 0
}
