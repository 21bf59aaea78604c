// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"testing"

	"weir/internal/kernel/tc"
	"weir/internal/units"
	"weir/record/stats"
)

// limitHolder is what holds the flows of a limitCell to a rate.
type limitHolder string

const (
	limitWeir  limitHolder = ""      // a limit of Weir
	limitHTB   limitHolder = "htb"   // a token bucket with a burst of 1 ms and a pfifo of 1000 packets, at the sender's device
	limitPaced limitHolder = "paced" // TCP alone: each flow has its part of the rate as SO_MAX_PACING_RATE
	limitFree  limitHolder = "free"  // nothing, which is what the machine can do
)

// BenchmarkLimitPeers measures cells of BenchmarkLimitAccuracy beside others that hold flows to a
// rate: HTB, TCP's own pacing at a rate that does not change, and nothing at all. Each repetition
// measures them one after another, beginning with the next, so that what else the machine does hits
// all of them.
func BenchmarkLimitPeers(b *testing.B) {
	g := readLimitGrid(b)
	g.each(b, g.compare)
}

func (g limitGrid) compare(b *testing.B, load string, rate units.BitRate, flows int) {
	cell := newLimitCell(b, load)
	holders := []limitHolder{limitWeir, limitHTB, limitPaced, limitFree}
	shares := map[limitHolder][]float64{}
	lost := stolen(b)
	for turn := range b.N * g.repeat {
		for i := range holders {
			cell.holder = holders[(turn+i)%len(holders)]
			shares[cell.holder] = append(shares[cell.holder], g.share(b, cell, rate, flows))
		}
	}
	for _, holder := range holders {
		estimate, name := stats.Of(shares[holder]), string(holder)
		if holder == limitWeir {
			name = "weir"
		}
		b.ReportMetric(estimate.Mean, name+"-%of-limit")
		if low, high, ok := estimate.Interval(); ok {
			b.ReportMetric(low, name+"-%low")
			b.ReportMetric(high, name+"-%high")
		}
	}
	b.ReportMetric(lost(), "%stolen")
	b.ReportMetric(0, "ns/op")
}

// share measures the cell once: goodput in percent of what the rate leaves to payload.
func (g limitGrid) share(b *testing.B, cell limitCell, rate units.BitRate, flows int) (percent float64) {
	b.Helper()
	if cell.holder == limitHTB {
		defer addLimitHTB(b, cell, rate)()
	}
	octets, _ := cell.run(b, rate, flows, g.warm, g.time)
	for _, n := range octets {
		percent += 100 * n * 8 / (g.time.Seconds() * float64(rate) * cell.efficiency())
	}
	return percent
}

// pace is the payload per second that each flow is paced at where TCP alone holds the rate, octets.
func (c limitCell) pace(rate units.BitRate, flows int) int {
	if c.holder != limitPaced {
		return 0
	}
	return int(float64(rate) / 8 * c.efficiency() / float64(flows))
}

// addLimitHTB puts the sender's device under a token bucket, as lab/limits does, and returns what
// takes it away.
func addLimitHTB(b *testing.B, cell limitCell, rate units.BitRate) (remove func()) {
	b.Helper()
	conn, err := tc.Open(cell.from.Namespace)
	must(b, err)
	root, class := tc.MakeHandle(1, 0), tc.MakeHandle(1, 1)
	must(b, conn.AddHTB("a", tc.Place{Handle: root}, 1))
	must(b, conn.AddHTBClass("a", root, class, tc.HTBClass{Rate: rate, Quantum: uint32(min(max(rate/80, 1514), 200_000))}))
	must(b, conn.AddPfifo("a", tc.Place{Parent: class, Handle: tc.MakeHandle(2, 0)}, 1000))
	return func() {
		_ = conn.Delete("a", tc.Place{})
		conn.Close()
	}
}
