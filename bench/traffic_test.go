// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"context"
	"errors"
	"net/netip"
	"os/exec"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"weir/internal/units"
	"weir/kernel/ethtool"
	"weir/kernel/rtnl"
	"weir/kernel/testutil"
	"weir/lab/traffic"
	"weir/lab/traffic/iperf"
	"weir/lab/traffic/native"
)

// BenchmarkTraffic measures the generators' CPU time per Gbit of goodput, including both ends and
// the kernel's share of the veth path between them. The generators take turns, so that other load
// of the machine affects both.
func BenchmarkTraffic(b *testing.B) {
	generators := []traffic.Generator{native.New()}
	if _, err := exec.LookPath("iperf3"); err == nil {
		generators = append(generators, iperf.Generator{})
	}
	from, to := trafficPath(b)
	for _, rate := range []units.BitRate{0, 1_000_000_000} {
		name := "unlimited"
		if rate > 0 {
			name = "1Gbit"
		}
		b.Run(name, func(b *testing.B) {
			cost, octets := make([]time.Duration, len(generators)), make([]float64, len(generators))
			for range b.N {
				for i, g := range generators {
					used, received := runTraffic(b, g, rate, from, to)
					cost[i] += used
					octets[i] += received
				}
			}
			for i, g := range generators {
				b.ReportMetric(cost[i].Seconds()*1000/(octets[i]*8/1e9), g.Name()+"-cpu-ms/Gbit")
				b.ReportMetric(octets[i]*8/1e9/float64(b.N), g.Name()+"-Gbit/s")
			}
		})
	}
}

// runTraffic runs one bulk flow of a second and returns the CPU time and the bytes received.
func runTraffic(b *testing.B, g traffic.Generator, rate units.BitRate, from, to traffic.Endpoint) (time.Duration, float64) {
	b.Helper()
	f := traffic.Flow{Name: "bulk", Kind: traffic.Bulk, Streams: 1, Duration: time.Second, Rate: rate, Congestion: "cubic"}
	before := cpuTime(b)
	result, err := g.Run(context.Background(), f, from, to)
	if err != nil || result.Failed != "" {
		b.Fatal(err, result.Failed)
	}
	return cpuTime(b) - before, float64(result.Streams[0].ReceivedBytes)
}

// cpuTime returns the CPU time of this process and of its ended children.
func cpuTime(b *testing.B) (sum time.Duration) {
	b.Helper()
	for _, who := range []int{unix.RUSAGE_SELF, unix.RUSAGE_CHILDREN} {
		var usage unix.Rusage
		if err := unix.Getrusage(who, &usage); err != nil {
			b.Fatal(err)
		}
		sum += time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
	}
	return sum
}

func trafficPath(b *testing.B) (from, to traffic.Endpoint) {
	b.Helper()
	from = traffic.Endpoint{Namespace: testutil.Namespace(b, "from"), Address: netip.MustParseAddr("10.0.0.1")}
	to = traffic.Endpoint{Namespace: testutil.Namespace(b, "to"), Address: netip.MustParseAddr("10.0.0.2")}
	near, err1 := rtnl.Open(from.Namespace)
	far, err2 := rtnl.Open(to.Namespace)
	if err := errors.Join(err1, err2); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(near.Close)
	b.Cleanup(far.Close)
	err := errors.Join(near.AddVeth("a", to.Namespace, "b", 0),
		near.AddAddress("a", netip.PrefixFrom(from.Address, 24)), far.AddAddress("b", netip.PrefixFrom(to.Address, 24)),
		near.SetUp("a"), far.SetUp("b"))
	if err != nil {
		b.Fatal(err)
	}
	// Frames of MTU size, like those of the lab's links.
	if err := ethtool.SetFeatures(from.Namespace, "a", map[string]bool{"tso": false, "gso": false}); err != nil {
		b.Fatal(err)
	}
	testutil.Eventually(b, 5*time.Second, "the link", func() bool {
		device, err := near.Device("a")
		return err == nil && device.Running
	})
	return from, to
}
