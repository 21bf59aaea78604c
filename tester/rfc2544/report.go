// SPDX-License-Identifier: Apache-2.0

package rfc2544

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"weir/record"
	"weir/record/stats"
)

// Tables returns the tables of section 26 for the tests that were run.
func (r Report) Tables() []record.Table {
	var tables []record.Table
	for _, t := range []record.Table{r.throughputTable(), r.latencyTable(), r.lossTable(), r.burstTable(), r.recoveryTable(), r.resetTable()} {
		if len(t.Rows) > 0 {
			tables = append(tables, t)
		}
	}
	return tables
}

// Bundle returns the report as evidence. The command adds machine, version and command line to the
// manifest.
func (r Report) Bundle() record.Bundle {
	b := record.Bundle{Tables: r.Tables(), Figures: r.figures(), Samples: r.samples()}
	b.Manifest = record.Manifest{
		Format: record.FormatBundle, Kind: "rfc2544", Name: "rfc2544", Started: r.Started, Finished: r.Finished,
		Mechanisms: r.Mechanisms, Stopped: r.Stopped, Notes: r.notes(), Parameters: r.parameters(),
	}
	for _, l := range r.Latency {
		if l.Reason == "" {
			b.Distributions = append(b.Distributions, record.Distribution{
				Labels: label(l.Size), Subject: "device", Metric: "latency", Unit: record.Seconds, Repetition: 1, Attempt: 1, Valid: true, Histogram: l.Delays,
			})
		}
	}
	for _, v := range append(r.results(), r.missing()...) {
		verdict := record.Verdict{Name: string(v.test), Labels: label(v.size), Expected: "a valid measurement", Measured: "measured", Outcome: record.Holds}
		if v.reason != "" {
			verdict.Measured, verdict.Outcome, verdict.Reason = dash, record.NotMeasured, v.reason
		}
		b.Verdicts = append(b.Verdicts, verdict)
	}
	return b
}

func label(size int) record.Labels { return record.Labels{"frame size": strconv.Itoa(size)} }

func (r Report) parameters() map[string]string {
	p := map[string]string{
		"search trial": r.Config.SearchTime.String(), "final trial": r.Config.FinalTime.String(),
		"resolution": strconv.FormatFloat(r.Config.Resolution, 'g', -1, 64), "repetitions of a failing trial": strconv.Itoa(r.Config.Verify),
		"tries for a valid trial": strconv.Itoa(r.Config.Attempts), "data stream": r.Config.Stream, "medium": r.Config.Medium,
	}
	if r.Config.Speed > 0 {
		p["speed"] = r.Config.Speed.String()
	}
	return p
}

// notes lists the deviations from RFC 2544, and the rejected trials.
func (r Report) notes() []string {
	c := r.Config
	notes := []string{
		fmt.Sprintf("a trial is valid when the offered rate is within %.1f %% of the requested one, at most %.0f %% of the frames left more than a gap late, the tester dropped nothing, no link went down, and the host took less than %.0f %% and other programs less than %.0f %% of the CPUs",
			100*c.MaxShort, 100*c.MaxLate, 100*c.MaxSteal, 100*c.MaxOthers),
		fmt.Sprintf("a trial that lost frames counts as failing only after %d repetitions that lost frames too (ETSI GS NFV-TST 009 clause 12.3.3, RFC 9004 section 6.2); RFC 2544 repeats none", c.Verify),
	}
	if slices.ContainsFunc(r.Attempts, func(a Attempt) bool { return a.Outcome.Device != nil }) {
		notes = append(notes, fmt.Sprintf("the device runs on this machine: the CPU time of other programs is not a criterion; a trial with losses is not valid if other work kept the device's thread off its CPU for more than %.0f %% of it, or a frame waited more than %d times as long as a full receive ring takes; losses of more than %.0f %% count in any case",
			100*c.MaxWaited, standstill, 100*hopeless))
	}
	if c.IsQuick {
		notes = append(notes, fmt.Sprintf("a quick look, not an RFC 2544 result: final trials of %s instead of 60 s, waits of %s, %s and %s instead of 2, 2 and 5 s, %d latency runs of %s instead of 20 of 120 s, %d burst searches instead of 50",
			c.FinalTime, c.LearnWait, c.ResidualWait, c.RestWait, c.LatencyRuns, c.LatencyTime, c.BurstRuns))
	}
	if c.Speed == 0 {
		notes = append(notes, "the medium has no speed: the maximum is the highest rate that the tester offers; give --speed for a theoretical one")
	}
	if c.IPv6 && len(c.Sizes) > 0 && c.Sizes[0] == IPv6Sizes[0] {
		notes = append(notes, "IPv6 headers and the stamp take 84 octets, so there is no row for 64")
	}
	invalid, reasons := 0, map[string]int{}
	for _, a := range r.Attempts {
		if !a.Valid {
			invalid++
			reasons[a.Reason]++
		}
	}
	if invalid > 0 {
		notes = append(notes, fmt.Sprintf("%d of %d trials were not valid and entered no result; most often: %s", invalid, len(r.Attempts), most(reasons)))
	}
	return notes
}

func most(reasons map[string]int) string {
	best := ""
	for reason, n := range reasons {
		if n > reasons[best] || n == reasons[best] && strings.Compare(reason, best) < 0 {
			best = reason
		}
	}
	return best
}

// samples returns the results, and every trial behind them with its validity.
func (r Report) samples() []record.Sample {
	var all []record.Sample
	add := func(size int, metric string, unit record.Unit, repetition int, value float64, reason string) {
		all = append(all, record.Sample{Labels: label(size), Subject: "device", Metric: metric, Unit: unit, Repetition: repetition, Attempt: 1, Value: value, Valid: reason == "", Reason: reason})
	}
	for _, t := range r.Throughput {
		add(t.Size, "throughput", record.FramePerSecond, 1, t.Rate, t.Reason)
		if t.Measured() {
			all[len(all)-1].Labels["limited by"] = string(t.Limit)
		}
	}
	for _, v := range r.FrameLoss {
		for i, p := range v.Points {
			add(v.Size, "frame_loss", record.Share, i+1, p.Loss, p.Reason)
			all[len(all)-1].Labels["input rate"] = frameRate(p.Rate)
			all[len(all)-1].Labels["share of maximum"] = strconv.FormatFloat(p.Percent/100, 'g', 4, 64)
		}
	}
	for _, l := range r.Latency {
		for i, mean := range l.Means() {
			add(l.Size, "latency", record.Seconds, i+1, mean, l.Reason)
		}
	}
	for _, v := range r.BackToBack {
		for i, length := range v.Lengths {
			add(v.Size, "back_to_back", record.Frames, i+1, length, v.Reason)
		}
		if v.Reason == "" && len(v.Lengths) > 0 {
			add(v.Size, "corrected_buffer_time", record.Seconds, 1, v.Corrected(stats.Of(v.Lengths).Mean), "")
		}
	}
	for _, v := range r.Recovery {
		for i, t := range v.Times {
			add(v.Size, "recovery_time", record.Seconds, i+1, t, v.Reason)
		}
	}
	for _, v := range r.Reset {
		add(v.Size, "reset_time", record.Seconds, 1, v.Time, v.Reason)
	}
	for i, a := range r.Attempts {
		s := record.Sample{
			Labels: record.Labels{"frame size": strconv.Itoa(a.Trial.Size), "test": string(a.Test), "rate": frameRate(a.Trial.Rate)}, Subject: "trial",
			Metric: "lost", Unit: record.Frames, Repetition: i + 1, Attempt: 1, Value: float64(a.Outcome.Lost()), Valid: a.Valid, Reason: a.Reason,
		}
		all = append(all, s)
	}
	return all
}
