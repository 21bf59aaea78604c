// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"fmt"
	"net/netip"
	"os"
	"slices"
	"testing"
	"time"

	"weir/kernel/netns"
	"weir/kernel/rtnl"
	"weir/kernel/sysctl"
	"weir/kernel/testutil"
	"weir/record/stats"
	"weir/tester"
	"weir/tester/generator"
	"weir/tester/rfc2544"
	"weir/tester/rfc2544/forwarder"
	"weir/tester/session"
)

// newForwarder makes a sending host, a router and a receiving host: the generator is on CPU 0, the
// router and the analyzer behind it on CPU 1.
func newForwarder(b *testing.B) *rfc2544.Ports {
	b.Helper()
	testutil.NeedRoot(b)
	testutil.Need(b, "live-frames", generator.LiveFrames())
	var all [3]*netns.Namespace
	var conns [3]*rtnl.Conn
	for i, name := range []string{"sender", "dut", "receiver"} {
		all[i] = testutil.Namespace(b, name)
		must(b, sysctl.Set(all[i], "net.ipv6.conf.all.disable_ipv6", "1"))
		must(b, sysctl.Set(all[i], "net.ipv6.conf.default.disable_ipv6", "1"))
		conn, err := rtnl.Open(all[i])
		must(b, err)
		b.Cleanup(conn.Close)
		conns[i] = conn
	}
	must(b, conns[0].AddVeth("out", all[1], "in", 0))
	must(b, conns[1].AddVeth("out", all[2], "in", 0))
	for i, ends := range [][]string{{"out"}, {"in", "out"}, {"in"}} {
		for _, device := range ends {
			must(b, conns[i].SetUp(device))
		}
	}
	prefix := netip.MustParsePrefix
	must(b, conns[0].AddAddress("out", prefix("198.18.0.2/24")))
	must(b, conns[1].AddAddress("in", prefix("198.18.0.1/24")))
	must(b, conns[1].AddAddress("out", prefix("198.19.0.1/24")))
	must(b, conns[2].AddAddress("in", prefix("198.19.0.2/24")))
	must(b, conns[0].AddRoute(rtnl.Route{To: prefix("198.19.0.0/24"), Via: netip.MustParseAddr("198.18.0.1")}))
	must(b, conns[2].AddRoute(rtnl.Route{To: prefix("198.18.0.0/24"), Via: netip.MustParseAddr("198.19.0.1")}))
	must(b, sysctl.Set(all[1], "net.ipv4.ip_forward", "1"))
	device, err := forwarder.Prepare(all[1], "in", "out", 1)
	must(b, err)
	return &rfc2544.Ports{
		A: session.Port{Namespace: all[0], Device: "out", CPUs: []int{0}}, B: session.Port{Namespace: all[2], Device: "in", CPUs: []int{0}},
		Header: tester.Header{Source: netip.MustParseAddr("198.18.0.2"), Destination: netip.MustParseAddr("198.19.0.2")},
		Device: device,
	}
}

// wholeSearch is set for results to publish; without it the search is coarse and takes a few
// seconds per size.
const wholeSearch = "WEIR_BENCH_RFC2544"

// forwarding is the procedure on a shared machine: short trials, since an interruption spoils long
// ones, and more repetitions of trials that lost frames.
func forwarding(sizes ...int) rfc2544.Config {
	c := rfc2544.Quick(rfc2544.Setup{Sizes: sizes, Tests: []rfc2544.Test{rfc2544.Throughput}}).OnSharedMachine()
	c.LearnWait, c.ResidualWait, c.RestWait = 0, 50*time.Millisecond, 10*time.Millisecond
	if testing.Verbose() {
		c.Progress = func(format string, args ...any) { fmt.Printf(format+"\n", args...) }
	}
	c.SearchTime, c.FinalTime, c.Resolution, c.Verify, c.VerifyFinal = 100*time.Millisecond, 200*time.Millisecond, 0.05, 1, 2
	if os.Getenv(wholeSearch) != "" {
		c.SearchTime, c.FinalTime, c.Resolution, c.Verify, c.VerifyFinal = 200*time.Millisecond, 500*time.Millisecond, 0.02, 3, 4
	}
	return c
}

// BenchmarkRFC2544 searches the throughput of the kernel's forwarding (RFC 2544 section 26.1) at
// 64, 512 and 1518 octets, once per iteration: WEIR_BENCH_RFC2544=1 and -benchtime 3x give three
// repetitions of each. The spread is the highest result over the lowest, less one.
func BenchmarkRFC2544(b *testing.B) {
	must(b, session.Realtime())
	defer func() { must(b, session.Ordinary()) }()
	p := newForwarder(b)
	defer func() { must(b, p.Close()) }()
	sizes := []int{64, 512, 1518}
	rates := map[int][]float64{}
	for range b.N {
		report, err := rfc2544.Run(b.Context(), forwarding(sizes...), p)
		must(b, err)
		for _, t := range report.Throughput {
			if !t.Measured() {
				b.Logf("%d octets: %s", t.Size, t.Reason)
				continue
			}
			b.Logf("%d octets: %.0f frame/s by the %s, %d of %d trials rejected; losses: %s; the tester offers %.0f frame/s", t.Size, t.Rate, t.Limit, t.Rejected, t.Trials, t.Losses, t.Offers)
			rates[t.Size] = append(rates[t.Size], t.Rate)
		}
	}
	for _, size := range sizes {
		if all := rates[size]; len(all) > 0 {
			b.ReportMetric(stats.Of(all).Mean/1e3, fmt.Sprintf("kframe/s-%d", size))
			b.ReportMetric(100*(slices.Max(all)/slices.Min(all)-1), fmt.Sprintf("%%-spread-%d", size))
		}
	}
	b.ReportMetric(0, "ns/op")
}
