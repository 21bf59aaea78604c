// SPDX-License-Identifier: Apache-2.0

package prove

import (
	"slices"

	"weir/core/module"
	"weir/record"
	"weir/record/summary"
)

// Bundle returns the result as evidence: a sample for every repetition, a verdict for every promise
// and bypass. The caller adds version, command and machine to the manifest.
func (r *Result) Bundle() record.Bundle {
	b := record.Bundle{
		Manifest: record.Manifest{Kind: "prove", Name: "prove", Started: r.Started, Finished: r.Finished, Seed: r.Seed, Stopped: r.Stopped,
			Mechanisms: map[string]string{}},
		Tables: r.RowTables(),
	}
	if r.Peer != "" {
		b.Manifest.Mechanisms["peer"] = r.Peer
	}
	if r.Congestion != "" {
		b.Manifest.Mechanisms["congestion control"] = r.Congestion
	}
	if len(r.Bypasses) > 0 {
		b.Tables = append(b.Tables, r.BypassTable())
	}
	if len(r.Inspections) > 0 {
		b.Tables = append(b.Tables, r.InspectionTable())
	}
	for _, one := range r.Inspections {
		b.Verdicts = append(b.Verdicts, inspected(one))
	}
	for _, row := range r.Rows {
		b.Samples = append(b.Samples, row.samples()...)
		if v, is := row.verdict(); is {
			b.Verdicts = append(b.Verdicts, v)
		}
	}
	for _, one := range r.Bypasses {
		if v, is := one.verdict(); is {
			b.Verdicts = append(b.Verdicts, v)
		}
	}
	if slices.ContainsFunc(r.Rows, func(row Row) bool { return row.Promise.Rate > 0 }) {
		b.Figures = append(b.Figures, r.figure())
	}
	return b
}

// partHeading returns the heading of the parts of a scope's rows.
func (r Row) partHeading() string {
	if r.heading == "" {
		return "part"
	}
	return r.heading
}

func (r Row) labels() record.Labels {
	l := record.Labels{"scope": r.Scope, "module": r.Module, "path": r.Path.String()}
	if r.Part != "" {
		l[r.partHeading()] = r.Part
	}
	return l
}

// samples returns the repetitions of a row.
func (r Row) samples() (all []record.Sample) {
	for _, s := range r.Samples {
		add := func(subject, metric string, unit record.Unit, value float64) {
			all = append(all, record.Sample{Labels: r.labels(), Subject: subject, Metric: metric, Unit: unit, Repetition: s.Repetition,
				Attempt: 1, Value: value, Valid: true})
		}
		add("receiver", "rate", record.BitPerSecond, s.Received)
		if s.Charged > 0 || s.Quotient > 0 {
			add("scope", "charged", record.BitPerSecond, s.Charged)
			add("scope", "charged_times", record.Share, s.Quotient)
		}
		for _, name := range r.shown {
			add("scope", name, record.Count, float64(s.Counters[name]))
		}
		add("host", "processors_busy", record.Share, s.Busy)
		for _, one := range s.Transfers {
			add("sender", "transfer", record.Seconds, one.Seconds())
		}
		if r.Path.Protocol == module.QUIC {
			add("receiver", "lost", record.Share, module.LossesOf([]module.Sample{s}).Again)
		}
		if r.ExtraDelay != nil {
			add("sender", "extra_delay", record.Seconds, s.Delay.Seconds())
			add("sender", "sent_again", record.Share, module.LossesOf([]module.Sample{s}).Again)
			if s.Probes.Sent > 0 {
				add("sender", "small_packets_lost", record.Share, float64(s.Probes.Lost)/float64(s.Probes.Sent))
			}
		} else {
			add("receiver", "drops", record.Count, float64(s.Drops))
		}
	}
	return all
}

// outcome converts the verdict of a row; "" for a scope without promise.
func (r Row) outcome() record.Outcome {
	return map[module.Verdict]record.Outcome{Holds: record.Holds, Under: record.Fails, Leaks: record.Fails, Loses: record.Fails, Fails: record.Fails,
		CannotSay: record.NotMeasured}[r.Verdict]
}

// verdict returns the verdict of a row as evidence.
func (r Row) verdict() (record.Verdict, bool) {
	v := record.Verdict{Name: r.Check, Labels: r.labels(), Reason: r.Reason, Measured: "–", Expected: r.Promise.String(), Outcome: r.outcome()}
	if r.Measured.N > 0 {
		mean, interval := summary.Cells(r.Measured, record.BitPerSecond)
		v.Measured = mean + " (" + interval + ")"
	}
	return v, v.Outcome != ""
}

func (b Bypass) verdict() (record.Verdict, bool) {
	v := record.Verdict{Name: "bypass", Labels: record.Labels{"scope": b.Scope, "module": b.Module, "bypass": b.Name}, Expected: "no bypass that is taken",
		Measured: string(b.State), Reason: b.Why,
		Outcome: map[State]record.Outcome{Covered: record.Holds, CanEscape: record.Holds, Escapes: record.Fails, Slowed: record.Fails,
			Unknown: record.NotMeasured}[b.State]}
	return v, v.Outcome != ""
}

// figure draws every row's share of its promise.
func (r *Result) figure() record.Figure {
	f := record.Figure{Name: "share", Title: "Measured share of the promise", Kind: record.BarChart, XLabel: "scope and path",
		YLabel: "share", YUnit: record.Share}
	measured := record.Curve{Name: "measured"}
	for _, one := range r.Rows {
		if one.Measured.N == 0 || one.Promise.Rate == 0 {
			continue
		}
		low, high, _ := one.Measured.Interval()
		f.XNames = append(f.XNames, one.Scope+" "+one.Part+" "+one.Path.String())
		measured.X = append(measured.X, float64(len(measured.X)))
		measured.Y = append(measured.Y, one.Share)
		measured.Low = append(measured.Low, low/float64(one.Promise.Rate))
		measured.High = append(measured.High, high/float64(one.Promise.Rate))
	}
	f.Curves = []record.Curve{measured}
	return f
}
