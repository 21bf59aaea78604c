// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"os"
	"strings"
	"testing"

	"weir/internal/units"
	"weir/record/stats"
)

// limitHolder is the means that limits the rate of a limitCell's flows.
type limitHolder string

const (
	limitWeir    limitHolder = ""          // Weir's policer, of a cgroup
	limitDelay   limitHolder = "delay"     // Weir's shaper, of a device
	limitUnpaced limitHolder = "unpaced"   // the same without pacing TCP
	limitHTB     limitHolder = "htb"       // a token bucket with a burst of 1 ms and a pfifo of 1000 packets
	limitCodel   limitHolder = "htb+codel" // the same with fq_codel
	limitCake    limitHolder = "cake"      // CAKE's shaper
	limitPaced   limitHolder = "fq+pacing" // fq, and each flow has its share of the rate as SO_MAX_PACING_RATE
	limitEDT     limitHolder = "edt"       // departure times without marks or a controller, and fq
	limitFree    limitHolder = "free"      // no limit, the machine's maximum
)

// BenchmarkLimitPeers measures cells of BenchmarkLimitAccuracy with several means of limiting: all
// of limitHolder that the kernel and the load allow, or those of WEIR_LIMIT_HOLDERS. For ingress
// they are on an ifb. Each repetition runs them one after another, from another first one, so that
// other load of the machine affects all of them.
func BenchmarkLimitPeers(b *testing.B) {
	g := readLimitGrid(b)
	g.each(b, g.compare)
}

// limitHolders returns the means that can limit a cell.
func limitHolders(c limitCell) (all []limitHolder) {
	holders := []limitHolder{limitWeir, limitDelay, limitUnpaced, limitHTB, limitCodel, limitCake, limitPaced, limitEDT, limitFree}
	if names := os.Getenv("WEIR_LIMIT_HOLDERS"); names != "" {
		holders = nil
		for _, name := range strings.Split(names, ",") {
			holders = append(holders, limitHolder(strings.TrimPrefix(name, "weir")))
		}
	}
	for _, h := range holders {
		if c.can(h) {
			all = append(all, h)
		}
	}
	return all
}

func (g limitGrid) compare(b *testing.B, load string, rate units.BitRate, flows int) {
	cell := newLimitCell(b, load)
	holders := limitHolders(cell)
	shares, even, users := map[limitHolder][]float64{}, map[limitHolder][]float64{}, map[limitHolder]*limitUsers{}
	lost := stolen(b)
	for turn := range b.N * g.repeat {
		for i := range holders {
			cell.holder = holders[(turn+i)%len(holders)]
			octets, _, seen := cell.run(b, rate, flows, g.warm, g.time)
			shares[cell.holder] = append(shares[cell.holder], cell.percent(octets, rate, g.time))
			even[cell.holder] = append(even[cell.holder], stats.Jain(octets))
			if users[cell.holder] == nil {
				users[cell.holder] = &limitUsers{}
			}
			users[cell.holder].add(seen)
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
		if cell.each == 0 && flows > 1 && !cell.flooded {
			b.ReportMetric(stats.Of(even[holder]).Mean, name+"-jain")
		}
		users[holder].report(b, name+"-")
	}
	b.ReportMetric(lost(), "%stolen")
	b.ReportMetric(0, "ns/op")
}

// pace returns the payload per second of each flow, in bytes, if TCP's pacing alone limits the
// rate.
func (c limitCell) pace(rate units.BitRate, flows int) int {
	if c.holder != limitPaced {
		return 0
	}
	return int(float64(rate) / 8 * c.efficiency() / float64(flows))
}
