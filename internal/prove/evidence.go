package prove

import (
	"fmt"
	"math"

	"weir/internal/units"
	"weir/record"
	"weir/record/summary"
)

// Bundle is the result as evidence: every repetition a sample, every promise and way around a verdict. The caller adds
// version, command and machine to the manifest.
func (r *Result) Bundle() record.Bundle {
	b := record.Bundle{
		Manifest: record.Manifest{Kind: "prove", Name: "prove", Started: r.Started, Finished: r.Finished, Seed: r.Seed, Stopped: r.Stopped,
			Mechanisms: map[string]string{"peer": r.Peer}},
		Tables: []record.Table{r.RateTable()},
	}
	if r.Congestion != "" {
		b.Manifest.Mechanisms["congestion control"] = r.Congestion
	}
	if len(r.Escapes) > 0 {
		b.Tables = append(b.Tables, r.EscapeTable())
	}
	for _, rate := range r.Rates {
		b.Samples = append(b.Samples, rate.samples()...)
		if v, is := rate.verdict(); is {
			b.Verdicts = append(b.Verdicts, v)
		}
	}
	for _, e := range r.Escapes {
		if v, is := e.verdict(); is {
			b.Verdicts = append(b.Verdicts, v)
		}
	}
	if len(r.Rates) > 0 {
		b.Figures = append(b.Figures, r.figure())
	}
	return b
}

func (r Rate) labels() record.Labels {
	return record.Labels{"scope": r.Scope, "direction": r.Direction, "path": r.Path.String()}
}

// samples are a rate's repetitions.
func (r Rate) samples() (all []record.Sample) {
	for _, s := range r.Samples {
		add := func(subject, metric string, unit record.Unit, value float64) {
			all = append(all, record.Sample{Labels: r.labels(), Subject: subject, Metric: metric, Unit: unit, Repetition: s.Repetition,
				Attempt: 1, Value: value, Valid: true})
		}
		add("receiver", "rate", record.BitPerSecond, s.Received)
		add("scope", "charged", record.BitPerSecond, s.Charged)
		add("scope", "charged_times", record.Share, s.Quotient)
		add("scope", "marked", record.Count, float64(s.Counters.Marked))
		add("scope", "reduced", record.Count, float64(s.Counters.Reduced))
		add("scope", "refused", record.Count, float64(s.Counters.Refused))
		add("host", "processors_busy", record.Share, s.Busy)
		if r.ExtraDelay != nil {
			add("sender", "extra_delay", record.Seconds, s.Delay.Seconds())
		} else {
			add("receiver", "drops", record.Count, float64(s.Drops))
		}
	}
	return all
}

// verdict is what is expected of the rate; a scope in shadow promises nothing.
func (r Rate) verdict() (record.Verdict, bool) {
	v := record.Verdict{Name: "rate", Labels: r.labels(), Reason: r.Reason, Measured: "–",
		Expected: fmt.Sprintf("%s, %+.0f %% to %+.0f %%", r.Promised, -100*below, 100*above),
		Outcome: map[Verdict]record.Outcome{Holds: record.Holds, Under: record.Fails, Leaks: record.Fails,
			CannotSay: record.NotMeasured}[r.Verdict]}
	if r.Measured.N > 0 {
		mean, interval := summary.Cells(r.Measured, record.BitPerSecond)
		v.Measured = mean + " (" + interval + ")"
	}
	return v, v.Outcome != ""
}

func (e Escape) verdict() (record.Verdict, bool) {
	v := record.Verdict{Name: "escape", Labels: record.Labels{"scope": e.Scope, "check": e.Check}, Expected: "no way around that is taken",
		Measured: string(e.State), Reason: e.Why,
		Outcome: map[State]record.Outcome{Covered: record.Holds, CanEscape: record.Holds, Escapes: record.Fails,
			Unknown: record.NotMeasured}[e.State]}
	return v, v.Outcome != ""
}

// RateTable shows what was promised and what was measured.
func (r *Result) RateTable() record.Table {
	t := record.Table{Title: "Rates", Columns: []string{"scope", "direction", "path", "promised", "measured", "95 % interval", "share",
		"extra delay", "marked", "reduced", "refused", "verdict"}}
	for _, one := range r.Rates {
		row := []string{one.Scope, one.Direction, one.Path.String(), one.Promised.String(), "–", "–", "–", "–", "–", "–", "–", string(one.Verdict)}
		if one.Measured.N > 0 {
			row[4], row[5] = summary.Cells(one.Measured, record.BitPerSecond)
			row[6] = fmt.Sprintf("%.1f %%", 100*one.Share)
			row[8], row[9], row[10] = fmt.Sprint(one.Marked), fmt.Sprint(one.Reduced), fmt.Sprint(one.Refused)
		}
		if one.ExtraDelay != nil && one.ExtraDelay.N > 0 {
			row[7] = units.Duration(math.Round(one.ExtraDelay.Mean*1e6) * 1e3).String()
		}
		t.Rows = append(t.Rows, row)
	}
	t.Note = "Wire octets (IP packet and 14) at the receiver, or by the scope's counters where it had other traffic as well."
	return t
}

// EscapeTable shows the ways around.
func (r *Result) EscapeTable() record.Table {
	t := record.Table{Title: "Ways around", Columns: []string{"scope", "check", "result", "charged", "why"}}
	for _, e := range r.Escapes {
		charged := "–"
		if e.Charged != nil {
			charged = fmt.Sprintf("%.2f times", *e.Charged)
		}
		t.Rows = append(t.Rows, []string{e.Scope, e.Check, string(e.State), charged, e.Why})
	}
	return t
}

// figure draws every rate's share of its promise.
func (r *Result) figure() record.Figure {
	f := record.Figure{Name: "share", Title: "What passed, as a share of what is promised", Kind: record.BarChart, XLabel: "scope and path",
		YLabel: "share", YUnit: record.Share}
	measured := record.Curve{Name: "measured"}
	for _, one := range r.Rates {
		if one.Measured.N == 0 {
			continue
		}
		low, high, _ := one.Measured.Interval()
		f.XNames = append(f.XNames, one.Scope+" "+one.Direction+" "+one.Path.String())
		measured.X = append(measured.X, float64(len(measured.X)))
		measured.Y = append(measured.Y, one.Share)
		measured.Low = append(measured.Low, low/float64(one.Promised))
		measured.High = append(measured.High, high/float64(one.Promised))
	}
	f.Curves = []record.Curve{measured}
	return f
}
