// SPDX-License-Identifier: Apache-2.0

package analysis

import (
	"weir/lab/link"
	"weir/lab/run"
	"weir/lab/scenario"
	"weir/lab/traffic"
	"weir/record"
)

// linkSamples returns the figures of the emulated links over the whole run.
func linkSamples(a attempt, links []link.Status) []record.Sample {
	var samples []record.Sample
	for _, status := range links {
		for i, c := range []link.Counters{status.Forward, status.Reverse} {
			subject := scenario.LinkSubject(status.Cable, i == 1)
			samples = append(samples,
				a.sample(subject, scenario.LinkLoss, share(c.LossDrops, c.Sent+c.LossDrops)),
				a.sample(subject, scenario.LinkQueueDrops, float64(c.QueueDrops)),
				a.sample(subject, scenario.LinkMarked, float64(c.Marked)))
			if c.MaxBacklog > 0 { // netem does not report it
				samples = append(samples, a.sample(subject, scenario.LinkMaxBacklog, float64(c.MaxBacklog)))
			}
		}
	}
	return samples
}

// streamSamples returns the figures of the frame tester's streams.
func streamSamples(a attempt, phase run.PhaseResult) []record.Sample {
	var samples []record.Sample
	for _, s := range phase.Streams {
		if s.Problem != "" {
			continue
		}
		name, c := s.Stream.Name, s.Counts
		samples = append(samples,
			a.sample(name, scenario.StreamSent, float64(s.Sent.Frames)),
			a.sample(name, scenario.StreamReceived, float64(c.Received)),
			a.sample(name, scenario.StreamLoss, share(s.Lost, s.Sent.Frames)),
			a.sample(name, scenario.StreamReordered, share(c.Reordered, c.Received)),
			a.sample(name, scenario.StreamDuplicates, share(c.Duplicates, s.Sent.Frames)))
		if span := (c.Last - c.First).Seconds(); span > 0 && c.Received > 1 {
			samples = append(samples, a.sample(name, scenario.StreamRate, float64(c.Received-1)/span))
		}
		if c.Delay != nil && c.Delay.Count() > 0 {
			samples = append(samples,
				a.sample(name, scenario.OWDMin, seconds(c.DelayMin)),
				a.sample(name, scenario.OWDMean, seconds(c.DelaySum)/float64(c.Delay.Count())),
				a.sample(name, scenario.OWDp50, seconds(c.Delay.Quantile(0.5))),
				a.sample(name, scenario.OWDp99, seconds(c.Delay.Quantile(0.99))),
				a.sample(name, scenario.OWDMax, seconds(c.DelayMax)))
		}
		if c.Variation != nil && c.Variation.Count() > 0 {
			samples = append(samples, a.sample(name, scenario.IPDVp99, seconds(c.Variation.Quantile(0.99))))
		}
	}
	return samples
}

// Names of the distributions; their values are in ns.
const (
	distributionSRTT     = "srtt"
	distributionExchange = "exchange_time"
	distributionTransfer = "transfer_time"
	distributionOWD      = "owd"
)

// distributions returns the histograms of a phase.
func distributions(a attempt, phase run.PhaseResult) []record.Distribution {
	var found []record.Distribution
	add := func(d record.Distribution) {
		if d.Histogram == nil || d.Histogram.Count() == 0 {
			return
		}
		d.Labels, d.Unit = a.labels, record.Seconds
		d.Repetition, d.Attempt, d.Valid = a.result.Repetition, a.result.Attempt, a.result.Valid
		found = append(found, d)
	}
	for i := range phase.Flows {
		f := flowOf(&phase.Flows[i], phase.Phase.Settle)
		if f.result.Flow.Kind != traffic.Datagram {
			add(record.Distribution{Subject: f.result.Flow.Name, Metric: distributionSRTT, Histogram: f.rtts})
		}
		add(record.Distribution{Subject: f.result.Flow.Name, Metric: distributionExchange, Histogram: f.result.Exchanges})
		for _, g := range f.transferGroups() {
			add(record.Distribution{Subject: g.subject, Metric: distributionTransfer, Histogram: &g.times})
		}
	}
	for _, s := range phase.Streams {
		add(record.Distribution{Subject: s.Stream.Name, Metric: distributionOWD, Histogram: s.Counts.Delay})
	}
	return found
}
