// SPDX-License-Identifier: Apache-2.0

package rfc2544_test

import (
	"context"
	"errors"
	"net/netip"
	"testing"
	"time"

	"weir/internal/fault"
	"weir/kernel/netns"
	"weir/kernel/probe"
	"weir/kernel/rtnl"
	"weir/kernel/sysctl"
	"weir/kernel/tc"
	"weir/kernel/testutil"
	"weir/tester/rfc2544"
	"weir/tester/session"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func conn(t *testing.T, ns *netns.Namespace) *rtnl.Conn {
	t.Helper()
	c, err := rtnl.Open(ns)
	must(t, err)
	t.Cleanup(c.Close)
	return c
}

// router is a kernel as device under test: frames of the first direction enter at device in and
// leave at out.
func router(t *testing.T) (*rfc2544.Ports, *netns.Namespace) {
	t.Helper()
	testutil.NeedRoot(t)
	testutil.Need(t, "xdp native on veth", probe.XDPNative())
	left, dut, right := testutil.Namespace(t, "left"), testutil.Namespace(t, "dut"), testutil.Namespace(t, "right")
	l, d, r := conn(t, left), conn(t, dut), conn(t, right)
	prefix, address := netip.MustParsePrefix, netip.MustParseAddr
	must(t, errors.Join(
		l.AddVeth("tg0", dut, "in", 0), r.AddVeth("tg1", dut, "out", 0),
		l.SetUp("tg0"), d.SetUp("in"), d.SetUp("out"), r.SetUp("tg1"),
		l.AddAddress("tg0", prefix("198.18.0.2/24")), d.AddAddress("in", prefix("198.18.0.1/24")),
		r.AddAddress("tg1", prefix("198.19.0.2/24")), d.AddAddress("out", prefix("198.19.0.1/24")),
		l.AddRoute(rtnl.Route{To: prefix("198.19.0.0/24"), Via: address("198.18.0.1"), Device: "tg0"}),
		r.AddRoute(rtnl.Route{To: prefix("198.18.0.0/24"), Via: address("198.19.0.1"), Device: "tg1"}),
		sysctl.Set(dut, "net.ipv4.ip_forward", "1"),
	))
	testutil.Eventually(t, 10*time.Second, "carrier", func() bool {
		a, errA := l.Device("tg0")
		b, errB := r.Device("tg1")
		return errA == nil && errB == nil && a.Running && b.Running
	})
	bench := &rfc2544.Ports{Bidirectional: true,
		A: session.Port{Namespace: left, Device: "tg0", Peer: &session.Port{Namespace: dut, Device: "in"}},
		B: session.Port{Namespace: right, Device: "tg1", Peer: &session.Port{Namespace: dut, Device: "out"}}}
	t.Cleanup(func() { must(t, bench.Close()) })
	return bench, dut
}

// The router of these tests forwards at the tester's rate, and at `slow` frame/s if limited.
const (
	size    = 128
	offered = 400 // frame/s
	slow    = 40  // frame/s
	waiting = 4   // frames
)

// limit adds a token bucket with a queue to a device of the router.
func limit(t *testing.T, dut *netns.Namespace, device string) {
	t.Helper()
	testutil.Need(t, "tbf", probe.Qdisc("tbf"))
	qdiscs, err := tc.Open(dut)
	must(t, err)
	defer qdiscs.Close()
	const octets = size - 4 // without the FCS
	must(t, qdiscs.AddTBF(device, tc.Place{}, tc.TBFSpec{Rate: slow * octets * 8, Burst: octets + 1, Limit: waiting * octets}))
}

// directions are the directions through the router, and the device that limits each.
var directions = []struct{ name, limited string }{{"neither", ""}, {"the first", "out"}, {"the second", "in"}}

// TestBothDirectionsAreCounted: each direction reports its own losses only.
func TestBothDirectionsAreCounted(t *testing.T) {
	for i, c := range directions {
		t.Run(c.name+" is limited", func(t *testing.T) {
			bench, dut := router(t)
			ctx := context.Background()
			must(t, bench.Learn(ctx, size))
			if c.limited != "" {
				limit(t, dut, c.limited)
			}
			const frames = offered
			o, err := bench.Trial(ctx, rfc2544.Trial{Size: size, Rate: offered, Duration: 20 * time.Second, Frames: frames}, 500*time.Millisecond)
			must(t, err)
			if len(o.Directions) != 2 {
				t.Fatalf("%d directions", len(o.Directions))
			}
			for n, f := range o.Directions {
				if f.Sent != frames || f.Received+f.Lost() != frames || f.Duplicates+f.Reordered > 0 {
					t.Errorf("direction %d: %+v", n+1, f)
				}
				switch limited := n+1 == i; {
				case limited && f.Lost() < frames/2:
					t.Errorf("direction %d is limited to a tenth, and lost %d of %d frames", n+1, f.Lost(), frames)
				case !limited && f.Lost() > 0:
					t.Errorf("direction %d is not limited, and lost %d of %d frames", n+1, f.Lost(), frames)
				}
			}
		})
	}
}

// TestALimitOfOneDirectionIsFound: the throughput of both directions together is that of the slower
// one.
func TestALimitOfOneDirectionIsFound(t *testing.T) {
	for _, c := range directions[1:] {
		t.Run(c.name, func(t *testing.T) {
			bench, dut := router(t)
			must(t, bench.Learn(context.Background(), size)) // before its frames can be lost
			limit(t, dut, c.limited)
			config := rfc2544.Quick(rfc2544.Setup{Bidirectional: true, Tests: []rfc2544.Test{rfc2544.Throughput}, Sizes: []int{size}})
			const final = 500 * time.Millisecond
			config.HighestOffers, config.SearchTime, config.FinalTime, config.ResidualWait = offered, 250*time.Millisecond, final, 300*time.Millisecond
			config.LearnWait, config.RestWait, config.Resolution, config.Verify, config.VerifyFinal, config.Attempts = 0, 0, 0.2, 0, 0, 3
			report, err := rfc2544.Run(context.Background(), config, bench)
			if fault.Of(err) == fault.Testbed {
				t.Skipf("this machine was too busy for a valid trial: %v", err)
			}
			must(t, err)
			// In addition to the rate, the queue and one frame of the bucket pass in a trial.
			got := report.Throughput[0]
			if most := slow + (waiting+2)/final.Seconds(); got.Limit != rfc2544.ByDevice || got.Rate > most {
				t.Errorf("%.1f frame/s by %s, and one direction carries %.0f at most: %s", got.Rate, got.Limit, most, got.Reason)
			}
		})
	}
}
