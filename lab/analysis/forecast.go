// SPDX-License-Identifier: Apache-2.0

package analysis

import (
	"math"
	"slices"

	"weir/lab/predict"
	"weir/lab/run"
	"weir/lab/scenario"
	"weir/lab/traffic"
	"weir/record"
	"weir/record/summary"
)

// none stands for a missing prediction.
const none = "–"

// maxWindowLimited bounds the part of the sending time that is limited by anything other than
// congestion control. Above it the throughput equations do not describe the flow.
const maxWindowLimited = 0.5

// forecast collects one row of the table of predictions: a bulk flow in one cell.
type forecast struct {
	goodput summary.Row
	rows    map[string]summary.Row // the flow's other metrics
	allowed float64                // bit/s; 0 is no limit
	absent  map[string]predict.Absence
	bound   bool // in some run the loss-event rate is only a lower bound
}

// forecasts collects the measured bulk flows in the order of rows.
func forecasts(outcome *run.Outcome, rows []summary.Row) []*forecast {
	byFlow := map[summary.Key]*forecast{}
	var all []*forecast
	for _, row := range rows {
		key := flowKey(row.Labels, row.Subject)
		if row.Metric == scenario.Goodput && row.Estimate.N > 0 {
			byFlow[key] = &forecast{goodput: row, rows: map[string]summary.Row{}, absent: map[string]predict.Absence{}}
		}
	}
	each(outcome, func(a attempt, f flow) {
		own := byFlow[flowKey(a.labels, f.result.Flow.Name)]
		if own == nil || f.result.Flow.Kind != traffic.Bulk {
			return
		}
		own.add(a, f)
	})
	for _, row := range rows {
		own := byFlow[flowKey(row.Labels, row.Subject)]
		if own == nil || len(own.absent) == 0 {
			continue
		}
		own.rows[row.Metric] = row
		if row.Metric == scenario.Goodput {
			all = append(all, own)
		}
	}
	return all
}

func flowKey(labels record.Labels, flow string) summary.Key {
	return summary.KeyOf(labels, flow, "", "")
}

// add adds one valid run of the flow.
func (o *forecast) add(a attempt, f flow) {
	measured := f.measuredFlow(a.result.Cell)
	o.allowed = allowance(a.result.Cell, f.result.Flow)
	o.bound = o.bound || !f.result.LossEventsExact
	for _, model := range models {
		why := measured.Absent(model.name)
		if why == "" && underLimit(a.result.Cell, f.result.Flow) {
			why = predict.UnderLimit
		}
		if had, seen := o.absent[model.name]; !seen || had == "" {
			o.absent[model.name] = why
		}
	}
}

// absence returns the reason that a model has no number in this row, or "" if it has one.
func (o *forecast) absence(model, metric string) predict.Absence {
	predicted, have := o.rows[metric]
	switch {
	case !have || predicted.Estimate.N == 0:
		return o.absent[model]
	case o.rows[scenario.WindowLimited].Estimate.Mean > maxWindowLimited:
		return predict.WindowLimited
	case o.allowed > 0 && predicted.Estimate.Mean >= o.allowed:
		return predict.RateLimited
	}
	return ""
}

// commonAbsence returns the reason if no model has a number in this row and all have the same
// reason.
func (o *forecast) commonAbsence() predict.Absence {
	first := o.absence(models[0].name, models[0].predicted)
	for _, model := range models[1:] {
		if why := o.absence(model.name, model.predicted); why != first && why != predict.NotCUBIC {
			return ""
		}
	}
	return first
}

// regime names CUBIC's region, or the reason that no model describes the flow.
func (o *forecast) regime() string {
	region, have := o.rows[scenario.CubicRegion]
	switch common := o.commonAbsence(); {
	case common != "":
		return string(common)
	case !have || region.Estimate.N == 0:
		return none
	case region.Estimate.Mean == 0:
		return string(predict.RenoFriendly)
	case region.Estimate.Mean == 1:
		return string(predict.CubicGrowth)
	}
	return "both"
}

// lossEvents prints the loss-event rate, "≥" before a lower bound.
func (o *forecast) lossEvents() string {
	p, have := o.rows[scenario.LossEventRate]
	if !have || p.Estimate.N == 0 {
		return none
	}
	text := percent.Format(100 * p.Estimate.Mean)
	if o.bound && p.Estimate.Mean > 0 {
		text = "≥ " + text
	}
	return text
}

// cells returns the row's cells; rates are divided by factor.
func (o *forecast) cells(factor float64) []string {
	regime := o.regime()
	cells := []string{o.goodput.Subject, record.Share.Format(o.goodput.Estimate.Mean / factor), o.lossEvents(), regime}
	for _, model := range models {
		switch why := o.absence(model.name, model.predicted); {
		case string(why) == regime:
			cells = append(cells, none)
		case why != "":
			cells = append(cells, string(why))
		default:
			cells = append(cells, record.Share.Format(o.rows[model.predicted].Estimate.Mean/factor)+
				" "+residual(o.rows[model.residual].Estimate.Mean))
		}
	}
	return cells
}

// residual prints measured/predicted - 1 in whole per cent, with its sign.
func residual(v float64) string {
	text := record.Count.Format(math.Round(100 * v))
	if v >= 0 {
		text = "+" + text
	}
	return text + "%"
}

// predictionTable compares the equations with the measurement for every bulk flow.
func predictionTable(outcome *run.Outcome, rows []summary.Row) (record.Table, bool) {
	all := forecasts(outcome, rows)
	var largest float64
	for _, o := range all {
		largest = max(largest, o.goodput.Estimate.Mean)
	}
	factor, unit := record.BitPerSecond.Scale(largest)
	labels := labelNames(outcome.Scenario, rows)
	t := record.Table{Title: "Predictions, " + unit, Columns: append(slices.Clone(labels), "flow", "measured", "p", "regime")}
	for _, model := range models {
		t.Columns = append(t.Columns, model.title)
	}
	for _, o := range all {
		var cells []string
		for _, name := range labels {
			cells = append(cells, o.goodput.Labels[name])
		}
		t.Rows = append(t.Rows, append(cells, o.cells(factor)...))
	}
	t.Note = "The column after each prediction is measured / predicted - 1. p: the loss-event rate, which all\n" +
		"three equations use with the mean SRTT. Regime: CUBIC's region (RFC 9438), or the reason that no\n" +
		"equation describes the flow. lab/predict/README.md explains the reasons."
	if len(t.Rows) > 0 {
		dropUniform(&t, "flow")
	}
	return t, len(t.Rows) > 0
}
