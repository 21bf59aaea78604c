// SPDX-License-Identifier: Apache-2.0

// Package evidence converts the account of a tester run into a bundle: samples, distributions, time
// series, verdicts, tables and figures. It is pure.
//
// Pitfall: unless both clocks are known to be synchronised, delays count from the smallest one and
// are named relative_delay_*. No sample is then called a one-way delay, and an expectation about
// one-way delay is not measured.
package evidence

import (
	"weir/record"
	"weir/record/hist"
	"weir/tester/session"
	"weir/tester/spec"
)

// Bundle returns the account as evidence. The command adds machine, version and command line to the
// manifest.
func Bundle(a session.Account, expect []spec.Expectation) record.Bundle {
	b := record.Bundle{
		Manifest: record.Manifest{
			Format: record.FormatBundle, Kind: "tester", Name: a.Name, Started: a.Started, Finished: a.Started.Add(a.Elapsed),
			Mechanisms: a.Mechanisms, Notes: a.Notes, Stopped: a.Stopped,
			Parameters: map[string]string{"delays": string(a.Clock)},
		},
		Verdicts: Verdicts(a, expect),
		Tables:   Tables(a),
		Figures:  figures(a),
		Points:   points(a),
	}
	for _, s := range a.Streams {
		b.Samples = append(b.Samples, samples(s, a.Clock)...)
		b.Distributions = append(b.Distributions, distributions(s, a.Clock)...)
	}
	if a.Lateness.Count() > 0 {
		b.Distributions = append(b.Distributions, distribution("generator", "lateness", a.Lateness))
	}
	return b
}

// Values returns the measured metrics of a stream in base units, by the names of spec.Metrics and,
// for delays between two clocks, relative_delay_*.
func Values(s session.Stream, clock session.Clock) map[string]float64 {
	v := map[string]float64{}
	if s.Sent != nil {
		sent := float64(s.Sent.Frames)
		v["stream_sent"], v["stream_send_rate"] = sent, s.Rate()
		v["stream_skipped"] = float64(s.Sent.Skipped)
		if sent > 0 {
			v["stream_late"] = float64(s.Sent.Late) / sent
		}
	}
	c := s.Received
	if c == nil {
		return v
	}
	v["stream_received"], v["stream_lost"], v["stream_rate"] = float64(c.Received), float64(s.Lost), s.Arrival()
	if total := known(s); total > 0 {
		v["stream_loss"] = s.LossShare()
		v["stream_duplicates"] = float64(c.Duplicates) / total
	}
	if c.Received == 0 {
		return v
	}
	received := float64(c.Received)
	v["stream_reordered"] = float64(c.Reordered) / received
	v["stream_reorder_extent"], v["stream_payload_errors"] = float64(c.MaxExtent), float64(c.PayloadErrors)
	v["stream_header_errors"], v["stream_out_of_window"] = float64(c.HeaderErrors), float64(c.OutOfWindow)
	v["stream_misnumbered"], v["stream_restarts"] = float64(c.Misnumbered), float64(c.Restarts)
	v["stream_wire_rate"] = s.Arrival() * float64(c.WireBytes) / received * 8
	v["stream_payload_rate"] = s.Arrival() * float64(c.PayloadBytes) / received * 8
	delays(v, s, clock)
	return v
}

// known returns the number of sent frames in the account.
func known(s session.Stream) float64 {
	if s.Sent != nil {
		return float64(s.Sent.Frames)
	}
	return float64(s.Received.Unique + s.Lost)
}

func delays(v map[string]float64, s session.Stream, clock session.Clock) {
	c := s.Received
	if n := c.Variation.Count(); n > 0 {
		v["ipdv_mean"], v["ipdv_p99"] = c.Variation.Mean()/1e9, quantile(c.Variation, 0.99)
	}
	if c.Delay.Count() == 0 {
		return
	}
	prefix, base := "owd_", 0.0
	if clock != session.OneWay {
		prefix, base = "relative_delay_", float64(c.DelayMin)/1e9 // not 0 only in accounts of earlier versions
	}
	v[prefix+"min"] = float64(c.DelayMin)/1e9 - base
	v[prefix+"mean"] = c.Delay.Mean()/1e9 - base
	v[prefix+"max"] = float64(c.DelayMax)/1e9 - base
	for name, q := range map[string]float64{"p50": 0.5, "p99": 0.99, "p999": 0.999} {
		v[prefix+name] = max(quantile(c.Delay, q)-base, 0)
	}
}

// quantile returns seconds.
func quantile(h *hist.Histogram, q float64) float64 { return float64(h.Quantile(q)) / 1e9 }

func samples(s session.Stream, clock session.Clock) []record.Sample {
	values := Values(s, clock)
	var all []record.Sample
	for _, m := range allMetrics() {
		value, measured := values[m.Name]
		if !measured {
			continue
		}
		all = append(all, record.Sample{
			Subject: s.Name, Metric: m.Name, Unit: m.Unit, Repetition: 1, Attempt: 1, Value: value, Valid: true,
		})
	}
	return all
}

// allMetrics are the metrics of a specification and those of relative delays.
func allMetrics() []spec.Metric {
	all := spec.Metrics()
	for _, name := range []string{"min", "mean", "p50", "p99", "p999", "max"} {
		all = append(all, spec.Metric{Name: "relative_delay_" + name, Unit: record.Seconds})
	}
	return all
}

func distributions(s session.Stream, clock session.Clock) []record.Distribution {
	if s.Received == nil {
		return nil
	}
	var all []record.Distribution
	if h := s.Received.Delay; h.Count() > 0 && clock == session.OneWay {
		all = append(all, distribution(s.Name, "owd", h))
	}
	if h := s.Received.Variation; h.Count() > 0 {
		all = append(all, distribution(s.Name, "ipdv", h))
	}
	return all
}

func distribution(subject, metric string, h *hist.Histogram) record.Distribution {
	return record.Distribution{Subject: subject, Metric: metric, Unit: record.Seconds, Repetition: 1, Attempt: 1, Valid: true, Histogram: h}
}

func points(a session.Account) []record.Point {
	names := map[uint16]string{}
	for _, s := range a.Streams {
		names[s.ID] = s.Name
	}
	var all []record.Point
	for _, r := range a.Series {
		for _, p := range []struct {
			metric string
			unit   record.Unit
			value  float64
		}{
			{"stream_send_rate", record.FramePerSecond, r.Sent}, {"stream_rate", record.FramePerSecond, r.Received},
			{"stream_wire_rate", record.BitPerSecond, r.Wire}, {"stream_lost", record.Frames, float64(r.Lost)}, {delayName(a.Clock), record.Seconds, r.Delay / 1e9},
		} {
			all = append(all, record.Point{Subject: names[r.Stream], Metric: p.metric, Unit: p.unit, Repetition: 1, Attempt: 1, At: r.At, Value: p.value})
		}
	}
	return all
}

func delayName(clock session.Clock) string {
	if clock == session.OneWay {
		return "owd_mean"
	}
	return "offset_delay_mean"
}
