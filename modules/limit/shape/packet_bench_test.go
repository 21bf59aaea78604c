// SPDX-License-Identifier: Apache-2.0

package shape

import (
	"net/netip"
	"testing"
	"time"

	"weir/core/match"
	"weir/internal/direction"
	"weir/kernel/clock"
)

// BenchmarkPacket measures delay_charge on a datagram of a scope: without a queue, after it and
// ahead of it; with a parent, without its queue and ahead of it. On an instruction-counting clock a
// nanosecond is one instruction. Measure with -benchtime 1x: queues grow.
func BenchmarkPacket(b *testing.B) {
	const child, group, repeat, idle = 3, 5, 10_000, -time.Hour
	for _, test := range []struct {
		name       string
		queue, own time.Duration // of the scope; how far the flow's own queue reaches
		above      time.Duration // its parent's queue; 0 for no parent
	}{
		{"idle", idle, 0, 0},
		{"behind", time.Hour, 10 * time.Hour, 0},
		{"ahead", time.Hour, 0, 0},
		{"parent idle", idle, 0, idle},
		{"parent ahead", idle, 0, time.Hour},
	} {
		b.Run(test.name, func(b *testing.B) {
			x, l := newBench(b), long(1, 0)
			l.Burst = -idle
			x.assign(match.Assignments{match.OfPrefix(netip.MustParsePrefix("10.9.0.2/32")): child})
			if test.above != 0 {
				x.set(group, l)
				x.state(group, test.above, 0, 2)
				l.Parent = keyOf(group, direction.Egress)
			}
			x.set(child, l)
			x.state(child, test.queue, 0, 2)
			x.flows(shapeShaperFlow{FinishNs: clock.Now() + int64(test.own)})
			f := datagram(one4, to4, 100)
			for b.Loop() {
				_, each, err := x.p.charge.Benchmark(f, repeat, nil)
				if err != nil {
					b.Fatal(err)
				}
				b.ReportMetric(float64(each.Nanoseconds()), "ns/packet")
			}
		})
	}
}
