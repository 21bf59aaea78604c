// SPDX-License-Identifier: Apache-2.0

package analysis

import (
	"slices"
	"time"

	"weir/lab/limits"
	"weir/lab/run"
	"weir/lab/scenario"
	"weir/lab/traffic"
	"weir/record"
	"weir/record/summary"
)

// A limit charges a packet's IP bytes and an Ethernet header.
const (
	etherHeader   = 14
	usualMTU      = 1500
	bucketSeconds = 1e-6 // the unit of a limit's queue histogram
)

// limitSamples returns the figures of the limits in a phase.
func limitSamples(a attempt, phase run.PhaseResult) []record.Sample {
	var samples []record.Sample
	for _, l := range a.result.Cell.Limits {
		if use, any := limitUse(a.result.Cell, l, phase); any {
			samples = append(samples, a.sample(l.Name, scenario.LimitUse, use))
		}
	}
	for _, status := range phase.Limits {
		samples = append(samples, countSamples(a, status, phase.Counted)...)
	}
	return samples
}

// countSamples returns figures from the limit's own counters over duration.
func countSamples(a attempt, s limits.Status, duration time.Duration) []record.Sample {
	name := s.Limit.Name
	samples := []record.Sample{
		a.sample(name, scenario.LimitRateUse, float64(s.Bytes)*8/(float64(s.Limit.Rate)*duration.Seconds())),
		a.sample(name, scenario.LimitRefused, float64(s.Refused)),
	}
	if s.Limit.Mechanism.Queue() {
		return samples
	}
	samples = append(samples,
		a.sample(name, scenario.LimitMarked, float64(s.Marked)),
		a.sample(name, scenario.LimitReduced, float64(s.Reduced)))
	if s.Limit.Mechanism.Cgroup() {
		samples = append(samples, a.sample(name, scenario.LimitForced, float64(s.Forced)))
	}
	for metric, share := range map[string]float64{scenario.LimitQueueP50: 0.5, scenario.LimitQueueP99: 0.99} {
		if queue, any := bucketQuantile(s.Queue, share); any {
			samples = append(samples, a.sample(name, metric, queue))
		}
	}
	return samples
}

// bucketQuantile returns the upper end, in seconds, of the bucket with the quantile: bucket i ends
// at 2^(i+1) µs.
func bucketQuantile(buckets [32]uint64, share float64) (float64, bool) {
	var total, seen uint64
	for _, n := range buckets {
		total += n
	}
	if total == 0 {
		return 0, false
	}
	for i, n := range buckets {
		if seen += n; float64(seen) >= share*float64(total) {
			return float64(uint64(2)<<i) * bucketSeconds, true
		}
	}
	return 0, false
}

// limitUse is the goodput of the flows under the limit divided by the maximum goodput that the
// limit allows.
func limitUse(cell *scenario.Cell, l scenario.Limit, phase run.PhaseResult) (float64, bool) {
	var used float64
	found := false
	for i := range phase.Flows {
		f := flowOf(&phase.Flows[i], phase.Phase.Settle)
		if !l.On(f.result.Flow) {
			continue
		}
		found = true
		used += f.goodput / payloadShare(f.result.Flow, mtuOf(cell, l.Host))
	}
	return used / float64(l.Rate), found
}

// underLimit reports whether a limit applies to the data that a flow sends.
func underLimit(cell *scenario.Cell, f traffic.Flow) bool {
	return slices.ContainsFunc(cell.Limits, func(l scenario.Limit) bool {
		return l.On(f) && l.Mechanism != scenario.Unlimited && l.Mechanism != scenario.Shadow
	})
}

// payloadShare is the maximum share of payload in the bytes that a limit charges, with full
// segments or datagrams of the flow's size.
func payloadShare(f traffic.Flow, mtu int) float64 {
	if f.Kind == traffic.Datagram {
		return float64(f.Payload) / float64(f.Payload+f.Headers()+etherHeader)
	}
	return float64(mtu-f.Headers()) / float64(mtu+etherHeader)
}

// mtuOf is the MTU of the link to a host.
func mtuOf(cell *scenario.Cell, host string) int {
	for _, l := range cell.Links {
		if (l.A == host || l.B == host) && l.MTU > 0 {
			return l.MTU
		}
	}
	return usualMTU
}

var limitColumns = []column{
	{"used", scenario.LimitUse, true, true},
	{"passed", scenario.LimitRateUse, false, true},
	{"marked", scenario.LimitMarked, false, false},
	{"reduced", scenario.LimitReduced, false, false},
	{"refused", scenario.LimitRefused, false, false},
	{"forced", scenario.LimitForced, false, false},
	{"queue p50", scenario.LimitQueueP50, false, false},
	{"queue p99", scenario.LimitQueueP99, false, false},
}

// limitsTable shows the use of each limit and its counters.
func limitsTable(outcome *run.Outcome, rows []summary.Row) (record.Table, bool) {
	t := grid(outcome, rows, limitColumns)
	if len(t.Rows) == 0 {
		return t, false
	}
	if i := slices.Index(t.Columns, "flow"); i >= 0 {
		t.Columns[i] = "limit"
	}
	t.Title = "Limits"
	t.Note = "used: goodput / maximum goodput under the limit; passed: bytes by the limit's own count / rate times time; all after the settle time."
	return t, true
}
