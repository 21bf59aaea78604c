// SPDX-License-Identifier: Apache-2.0

package measure

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"weir/cmd/weir/cli"
	"weir/internal/fault"
	"weir/measure/client"
	"weir/measure/record"
	"weir/measure/session"
	evidence "weir/record"
	"weir/record/stats"
	"weir/record/summary"
)

// report collects the results of a run.
type report struct {
	server  client.Server
	options *runOptions
	started time.Time
	stopped bool
	tasks   []task
	results []client.Result
}

func newReport(s client.Server, o *runOptions, started time.Time) *report {
	return &report{server: s, options: o, started: started}
}

func (r *report) add(t task, result client.Result) {
	r.tasks = append(r.tasks, t)
	r.results = append(r.results, result)
}

// metric is a figure of a test.
type metric struct {
	name, title string
	unit        evidence.Unit
	of          func(client.Result) *float64
}

// bulkMetrics and latencyMetrics are the figures of tests, in the order of the tables.
var bulkMetrics = []metric{
	{"goodput", "rate", evidence.BitPerSecond, func(r client.Result) *float64 { return &r.Rate }},
	{"min_rtt", "minimum RTT", evidence.Seconds, func(r client.Result) *float64 { return r.MinRTT }},
	{"loaded_rtt", "loaded RTT", evidence.Seconds, func(r client.Result) *float64 { return r.LoadedRTT }},
	{"retransmitted", "retransmitted", evidence.Share, func(r client.Result) *float64 { return r.Retransmitted }},
}

var latencyMetrics = []metric{
	{"min_rtt", "minimum RTT", evidence.Seconds, func(r client.Result) *float64 { return r.MinRTT }},
	{"median_rtt", "median RTT", evidence.Seconds, func(r client.Result) *float64 { return r.MedianRTT }},
	{"p95_rtt", "95 % below", evidence.Seconds, func(r client.Result) *float64 { return r.P95RTT }},
	{"lost", "lost", evidence.Share, func(r client.Result) *float64 { return r.Lost }},
}

func (r *report) metrics() []metric {
	if r.options.kind == string(client.Latency) {
		return latencyMetrics
	}
	return bulkMetrics
}

func labelsOf(t task) evidence.Labels {
	return evidence.Labels{"direction": t.name(), "family": t.family.String()}
}

// Difference compares the families of one direction and metric: IPv6 minus IPv4.
type difference struct {
	Direction string        `json:"direction"` // "latency" for a test without one
	Metric    string        `json:"metric"`
	Unit      evidence.Unit `json:"unit"`
	stats.Difference
	// AdjustedP is P after Holm's correction for all differences of the run.
	AdjustedP *float64 `json:"adjusted_p,omitempty"`
}

// mechanisms are those of the manifest.
func (r *report) mechanisms() map[string]string {
	all := map[string]string{"protocol": "ndt7", "rate": "payload at the receiver"}
	if r.options.kind == string(client.Latency) {
		return map[string]string{"protocol": "msak latency1", "round trips": "server to client and back, UDP"}
	}
	if r.options.kind == string(client.MSAK) {
		all["protocol"], all["streams"] = "msak throughput1", fmt.Sprint(r.options.streams)
		seen := map[string]bool{}
		for _, result := range r.results {
			if c := result.Congestion; c != "" && !seen[c] {
				seen[c] = true
				all["congestion control"] = strings.TrimPrefix(all["congestion control"]+", "+c, ", ")
			}
		}
	}
	return all
}

// bundle returns the evidence of the run.
func (r *report) bundle() evidence.Bundle {
	b := evidence.Bundle{Manifest: evidence.Manifest{
		Kind: "measure", Name: r.server.URL(), Started: r.started, Finished: time.Now(), Seed: r.options.seed, Stopped: r.stopped,
		Mechanisms: r.mechanisms(),
	}}
	for i, result := range r.results {
		t := r.tasks[i]
		for _, m := range r.metrics() {
			if v := m.of(result); v != nil {
				b.Samples = append(b.Samples, evidence.Sample{Labels: labelsOf(t), Subject: "test", Metric: m.name, Unit: m.unit, Repetition: t.repetition, Attempt: 1, Value: *v, Valid: result.Valid, Reason: result.Reason})
			}
		}
		for stream, raw := range result.Streams {
			subject := "test"
			if len(result.Streams) > 1 {
				subject = fmt.Sprintf("stream %d", stream+1)
			}
			b.Points = append(b.Points, points(t, subject, raw)...)
		}
		for _, note := range result.Notes {
			b.Manifest.Notes = append(b.Manifest.Notes, fmt.Sprintf("%s over %s: %s", t.name(), t.family, note))
		}
		if result.RoundTrips != nil {
			b.Points = append(b.Points, tripPoints(t, result)...)
		}
		for stream, raw := range result.Streams {
			name := fmt.Sprintf("measurements/%s-%s-%d", t.direction, t.family, t.repetition)
			if len(result.Streams) > 1 {
				name += fmt.Sprintf("-stream-%d", stream+1)
			}
			if text, err := json.Marshal(raw.Events); err == nil {
				b.Attachments = append(b.Attachments, evidence.Attachment{Name: name + ".json", Content: text})
			}
		}
	}
	b.Tables = r.tables(b.Samples)
	return b
}

// points are the receiver's rate between its measurements, and the sender's RTT.
func points(t task, subject string, raw session.ClientResult) (all []evidence.Point) {
	receiver, sender := "client", "server"
	if t.direction == record.Upload {
		receiver, sender = sender, receiver
	}
	point := func(metric string, unit evidence.Unit, at time.Duration, v float64) {
		all = append(all, evidence.Point{Labels: labelsOf(t), Subject: subject, Metric: metric, Unit: unit, Repetition: t.repetition, Attempt: 1, At: at, Value: v})
	}
	var last record.AppInfo
	for _, e := range raw.Events {
		if a := e.AppInfo; a != nil && e.Origin == receiver && a.ElapsedTime > last.ElapsedTime {
			point("goodput", evidence.BitPerSecond, time.Duration(a.ElapsedTime)*time.Microsecond, float64(a.NumBytes-last.NumBytes)*8e6/float64(a.ElapsedTime-last.ElapsedTime))
			last = *a
		}
		if e.TCPInfo != nil && e.Origin == sender {
			point("rtt", evidence.Seconds, time.Duration(e.TCPInfo.ElapsedTime)*time.Microsecond, float64(e.TCPInfo.RTT)/1e6)
		}
	}
	if sender == "client" {
		for i, rtt := range raw.Samples.RTT {
			point("rtt", evidence.Seconds, time.Duration(raw.Samples.ElapsedTime[i])*time.Microsecond, float64(rtt)/1e6)
		}
	}
	return all
}

// tripPoints are the round trips of a latency test by their sequence numbers, one each 25 ms.
func tripPoints(t task, result client.Result) (all []evidence.Point) {
	for seq, trip := range result.RoundTrips.RoundTrips {
		if !trip.Lost {
			all = append(all, evidence.Point{
				Labels: labelsOf(t), Subject: "test", Metric: "rtt", Unit: evidence.Seconds, Repetition: t.repetition, Attempt: 1,
				At: time.Duration(seq) * 25 * time.Millisecond, Value: float64(trip.RTT) / 1e6,
			})
		}
	}
	return all
}

// tables are the tests, and with repetitions the means and the differences of the families.
func (r *report) tables(samples []evidence.Sample) []evidence.Table {
	tests := evidence.Table{Title: "Tests of " + r.server.URL(), Columns: []string{"test", "family"}}
	for _, m := range r.metrics() {
		tests.Columns = append(tests.Columns, m.title)
	}
	tests.Columns = append(tests.Columns, "counts")
	for i, result := range r.results {
		t := r.tasks[i]
		row := []string{t.name(), t.family.String()}
		for _, m := range r.metrics() {
			row = append(row, value(m.unit, m.of(result)))
		}
		counts := "yes"
		if !result.Valid {
			counts = "no: " + result.Reason
		}
		tests.Rows = append(tests.Rows, append(row, counts))
	}
	tables := []evidence.Table{tests}
	if r.options.repeat > 1 {
		means := evidence.Table{Title: "Means and 95 % intervals", Columns: []string{"test", "family", "quantity", "mean", "interval", "tests"}}
		for _, row := range summary.Rows(samples) {
			interval := "-"
			if low, high, ok := row.Estimate.Interval(); ok {
				interval = row.Unit.Format(low) + " to " + row.Unit.Format(high)
			}
			if row.Estimate.N > 0 {
				means.Rows = append(means.Rows, []string{row.Labels["direction"], row.Labels["family"], row.Metric, row.Unit.Format(row.Estimate.Mean), interval, fmt.Sprint(row.Estimate.N)})
			}
		}
		tables = append(tables, means)
	}
	if d := r.differences(samples); len(d) > 0 {
		tables = append(tables, differenceTable(d))
	}
	return tables
}

func value(unit evidence.Unit, v *float64) string {
	if v == nil {
		return "-"
	}
	if unit == evidence.Share {
		return fmt.Sprintf("%.3g %%", *v*100)
	}
	return unit.Format(*v)
}

// differences compares the families; empty unless both have valid tests.
func (r *report) differences(samples []evidence.Sample) (all []difference) {
	values := map[string][]float64{}
	for _, s := range samples {
		if s.Valid {
			key := s.Labels["direction"] + s.Metric + s.Labels["family"]
			values[key] = append(values[key], s.Value)
		}
	}
	var p []float64
	for _, direction := range []string{string(record.Download), string(record.Upload), string(client.Latency)} {
		for _, m := range r.metrics() {
			key := direction + m.name
			four, six := values[key+client.IPv4.String()], values[key+client.IPv6.String()]
			if len(four) == 0 || len(six) == 0 {
				continue
			}
			d := difference{Direction: direction, Metric: m.name, Unit: m.unit, Difference: stats.Welch(four, six)}
			all = append(all, d)
			if d.P != nil {
				p = append(p, *d.P)
			}
		}
	}
	adjusted := stats.Holm(p)
	for i := range all {
		if all[i].P != nil {
			all[i].AdjustedP, adjusted = &adjusted[0], adjusted[1:]
			all[i].Significant = *all[i].AdjustedP < 1-stats.Confidence
		}
	}
	return all
}

func differenceTable(all []difference) evidence.Table {
	t := evidence.Table{
		Title: "IPv6 minus IPv4", Note: "Welch's interval for each row; \"significant\" after Holm's correction for all rows",
		Columns: []string{"test", "quantity", "difference", "95 % interval", "significant"},
	}
	for _, d := range all {
		interval, significant := "- (needs --repeat 2 or more)", "-"
		if d.Low != nil {
			interval, significant = d.Unit.Format(*d.Low)+" to "+d.Unit.Format(*d.High), "no"
			if d.Significant {
				significant = "yes"
			}
		}
		t.Rows = append(t.Rows, []string{d.Direction, d.Metric, d.Unit.Format(d.Value), interval, significant})
	}
	return t
}

// runResult is the document of --format json.
type runResult struct {
	Format      string            `json:"format"`
	Bundle      string            `json:"bundle,omitempty"`
	Manifest    evidence.Manifest `json:"manifest"`
	Tests       []client.Result   `json:"tests"`
	Rows        []summary.Row     `json:"rows"`
	Differences []difference      `json:"differences"`
}

// print writes the bundle and prints the result. Without a test that counts the exit status is 3.
func (r *report) print(a *cli.App) error {
	b := r.bundle()
	if err := a.Keep(&b, r.options.out); err != nil {
		return err
	}
	if a.Format == "json" {
		if err := a.JSON(runResult{
			Format: "weir-measure-result/1", Bundle: r.options.out, Manifest: b.Manifest, Tests: cli.OrEmpty(r.results),
			Rows: cli.OrEmpty(summary.Rows(b.Samples)), Differences: cli.OrEmpty(r.differences(b.Samples)),
		}); err != nil {
			return err
		}
	} else if err := a.PrintBundle(b, r.options.out); err != nil {
		return err
	}
	if r.stopped {
		return fault.New(fault.Failed, "let it run to its end for the whole result", "stopped")
	}
	for _, result := range r.results {
		if result.Valid {
			return nil
		}
	}
	return fault.New(fault.Testbed, "see the column \"counts\"", "no test describes the network")
}
