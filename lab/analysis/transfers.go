// SPDX-License-Identifier: Apache-2.0

package analysis

import (
	"fmt"
	"math"
	"slices"

	"weir/lab/run"
	"weir/lab/scenario"
	"weir/lab/traffic"
	"weir/lab/traffic/workload"
	"weir/record"
	"weir/record/hist"
	"weir/record/summary"
)

// transferGroup is all transfers of a flow, or those of one class of size, that have begun after
// the settle time.
type transferGroup struct {
	subject   string
	begun     int
	times     hist.Histogram // of the completed ones, in ns
	seconds   []float64      // the same, in order of size
	slowdowns []float64      // in order of size; none where the path has no least time
}

// transferGroups are those of the flow, all of its transfers first; none for another kind of flow.
func (f flow) transferGroups() []*transferGroup {
	own := f.result.Flow
	if own.Kind != traffic.Transfers || own.Load == nil {
		return nil
	}
	groups := []*transferGroup{{subject: own.Name}}
	classes := workload.Classes()
	for _, c := range classes {
		groups = append(groups, &transferGroup{subject: scenario.ClassSubject(own.Name, c)})
	}
	for _, transfer := range f.result.Transfers {
		if transfer.Due < f.settle {
			continue
		}
		class := slices.IndexFunc(classes, func(c workload.Class) bool { return c.Has(transfer.Octets) })
		for _, g := range []*transferGroup{groups[0], groups[1+class]} {
			g.add(transfer, own.Load.Path)
		}
	}
	for _, g := range groups {
		slices.Sort(g.seconds)
		slices.Sort(g.slowdowns)
	}
	return groups
}

func (g *transferGroup) add(transfer traffic.Transfer, path workload.Path) {
	g.begun++
	if transfer.Took == 0 {
		return
	}
	g.times.Record(uint64(transfer.Took))
	g.seconds = append(g.seconds, transfer.Took.Seconds())
	if ideal := path.Ideal(transfer.Octets); ideal > 0 {
		g.slowdowns = append(g.slowdowns, transfer.Took.Seconds()/ideal.Seconds())
	}
}

func (f flow) transferSamples(a attempt, name string) []record.Sample {
	samples := []record.Sample{a.sample(name, scenario.Goodput, f.goodput)}
	for _, g := range f.transferGroups() {
		samples = append(samples, g.samples(a)...)
	}
	var late []float64
	for _, transfer := range f.result.Transfers {
		late = append(late, (transfer.Begun - transfer.Due).Seconds())
	}
	if len(late) > 0 {
		slices.Sort(late)
		samples = append(samples, a.sample(name, scenario.TransferLateness, quantile(late, 0.99)))
	}
	return samples
}

func (g *transferGroup) samples(a attempt) []record.Sample {
	completed := len(g.seconds)
	samples := []record.Sample{
		a.sample(g.subject, scenario.TransfersBegun, float64(g.begun)),
		a.sample(g.subject, scenario.TransfersCompleted, float64(completed)),
		a.sample(g.subject, scenario.TransfersUnfinished, float64(g.begun-completed)),
	}
	if completed > 0 {
		samples = append(samples,
			a.sample(g.subject, scenario.TransferMean, mean(g.seconds)),
			a.sample(g.subject, scenario.TransferP50, quantile(g.seconds, 0.5)),
			a.sample(g.subject, scenario.TransferP99, quantile(g.seconds, 0.99)),
			a.sample(g.subject, scenario.TransferP999, quantile(g.seconds, 0.999)))
	}
	if len(g.slowdowns) > 0 {
		samples = append(samples,
			a.sample(g.subject, scenario.SlowdownP50, quantile(g.slowdowns, 0.5)),
			a.sample(g.subject, scenario.SlowdownP99, quantile(g.slowdowns, 0.99)))
	}
	return samples
}

// quantile is the smallest of sorted values that the share of them does not exceed.
func quantile(sorted []float64, share float64) float64 {
	return sorted[max(0, int(math.Ceil(share*float64(len(sorted))))-1)]
}

func mean(values []float64) (sum float64) {
	for _, v := range values {
		sum += v
	}
	return sum / float64(len(values))
}

var transferColumns = []column{
	{"begun", scenario.TransfersBegun, false, false},
	{"unfinished", scenario.TransfersUnfinished, false, false},
	{"mean", scenario.TransferMean, true, false},
	{"p50", scenario.TransferP50, false, false},
	{"p99", scenario.TransferP99, true, false},
	{"p99.9", scenario.TransferP999, false, false},
	{"slowdown p50", scenario.SlowdownP50, false, false},
	{"slowdown p99", scenario.SlowdownP99, false, false},
}

// transferTable shows completion times, all and by size. Classes in which nothing began are left
// out.
func transferTable(outcome *run.Outcome, rows []summary.Row) (record.Table, bool) {
	var own []summary.Row
	for _, row := range rows {
		began := slices.ContainsFunc(rows, func(r summary.Row) bool {
			return r.Metric == scenario.TransfersBegun && r.Subject == row.Subject && r.Estimate.Mean > 0
		})
		if began {
			own = append(own, row)
		}
	}
	t := grid(outcome, own, transferColumns)
	t.Title = "Completion times of transfers"
	t.Note = "Mean of the valid runs [95 % interval] over the completed transfers; transfers unfinished at the end of the flow are excluded. " +
		"Small: up to 100 kB; middle: up to 10 MB; large: above 10 MB. Slowdown: completion time / minimum time on the empty path."
	return t, len(t.Rows) > 0
}

// cutNotes say which distributions of sizes were cut.
func cutNotes(outcome *run.Outcome) (all []string) {
	for i := range outcome.Results {
		for _, phase := range outcome.Results[i].Cell.Phases {
			for _, f := range phase.Flows {
				if f.Load == nil || f.Load.Sizes.Most == 0 {
					continue
				}
				share, whole := f.Load.Sizes.Cut()
				most := workload.Octets(float64(f.Load.Sizes.Most))
				text := fmt.Sprintf("flow %s: sizes of %s above %s are %s: %.3g %% of the transfers; the mean is %s in place of %s", f.Name,
					f.Load.Sizes.Name, most, most, 100*share, workload.Octets(f.Load.Sizes.Mean()), workload.Octets(whole))
				if !slices.Contains(all, text) {
					all = append(all, text)
				}
			}
		}
	}
	return all
}
