// SPDX-License-Identifier: Apache-2.0

package analysis

import (
	"cmp"
	"slices"
	"time"

	"weir/lab/link"
	"weir/lab/run"
	"weir/lab/scenario"
	"weir/lab/traffic"
	"weir/record"
)

// representatives returns the runs with time series in the bundle: of every cell the valid run with
// the median goodput.
func representatives(outcome *run.Outcome) []*run.Result {
	byCell := map[*scenario.Cell][]*run.Result{}
	for i := range outcome.Results {
		if result := &outcome.Results[i]; result.Valid {
			byCell[result.Cell] = append(byCell[result.Cell], result)
		}
	}
	var chosen []*run.Result
	for i := range outcome.Cells {
		results := byCell[&outcome.Cells[i]]
		if len(results) == 0 {
			continue
		}
		slices.SortFunc(results, func(a, b *run.Result) int {
			return cmp.Or(cmp.Compare(totalGoodput(a), totalGoodput(b)), cmp.Compare(a.Repetition, b.Repetition))
		})
		chosen = append(chosen, results[(len(results)-1)/2])
	}
	return chosen
}

func totalGoodput(result *run.Result) (total float64) {
	for _, phase := range result.Phases {
		for i := range phase.Flows {
			total += flowOf(&phase.Flows[i], phase.Phase.Settle).goodput
		}
	}
	return total
}

// spacing is the minimum time between two points of a series of TCP's state.
const spacing = 40 * time.Millisecond

// addSeries adds the time series of a run.
func addSeries(b *record.Bundle, result *run.Result) {
	for _, phase := range result.Phases {
		labels := result.Cell.PhaseLabels(phase.Phase.Name)
		for _, f := range phase.Flows {
			series := seriesWriter{bundle: b, template: record.Point{
				Labels: labels, Subject: f.Flow.Name, Repetition: result.Repetition, Attempt: result.Attempt,
			}, offset: phase.Began + f.Flow.Start}
			series.rates(f.Streams)
			if len(f.Streams) > 0 {
				series.readings(f.Streams[0].Readings)
			}
		}
	}
}

// addDepths adds the lengths of the links' queues, by phase. A queue that was always empty has no
// series.
func addDepths(b *record.Bundle, result *run.Result) {
	for i, both := range result.Depths {
		for side, bins := range both {
			if i >= len(result.Links) || slices.Max(append([]uint32{0}, bins...)) == 0 {
				continue
			}
			for _, phase := range result.Phases {
				w := seriesWriter{bundle: b, template: record.Point{Labels: result.Cell.PhaseLabels(phase.Phase.Name),
					Subject: scenario.LinkSubject(result.Links[i].Cable, side == 1), Repetition: result.Repetition, Attempt: result.Attempt}}
				for n, octets := range bins {
					if at := time.Duration(n+1) * link.DepthInterval; at > phase.Began && at <= phase.Began+phase.Phase.Duration {
						w.add(scenario.SeriesQueue, at, float64(octets))
					}
				}
			}
		}
	}
}

type seriesWriter struct {
	bundle   *record.Bundle
	template record.Point
	offset   time.Duration
}

func (w seriesWriter) add(metric string, at time.Duration, value float64) {
	known, _, _ := scenario.FindMetric(metric)
	point := w.template
	point.Metric, point.Unit, point.At, point.Value = metric, known.Unit, w.offset+at, value
	w.bundle.Points = append(w.bundle.Points, point)
}

// rates adds the sum of bytes received by all streams of a flow in each interval.
func (w seriesWriter) rates(streams []traffic.Stream) {
	var sum []uint64
	for _, s := range streams {
		for len(sum) < len(s.Received) {
			sum = append(sum, 0)
		}
		for i, octets := range s.Received {
			sum[i] += octets
		}
	}
	for i, octets := range sum {
		w.add(scenario.SeriesRate, time.Duration(i+1)*traffic.RateInterval, float64(octets)*8/traffic.RateInterval.Seconds())
	}
}

// readings adds TCP's state of a flow's first stream over time.
func (w seriesWriter) readings(readings []traffic.Reading) {
	last := -spacing
	for _, r := range readings {
		if r.At-last < spacing {
			continue
		}
		last = r.At
		w.add(scenario.SeriesCwnd, r.At, float64(r.Cwnd))
		if r.Ssthresh < 1<<30 { // infinite until the first loss
			w.add(scenario.SeriesSsthresh, r.At, float64(r.Ssthresh))
		}
		w.add(scenario.SeriesSRTT, r.At, r.SRTT.Seconds())
		w.add(scenario.SeriesRTTVar, r.At, r.RTTVar.Seconds())
		w.add(scenario.SeriesRetransmits, r.At, float64(r.Retransmits))
		w.add(scenario.SeriesDelivery, r.At, float64(r.DeliveryRate))
		w.add(scenario.SeriesPacing, r.At, float64(r.PacingRate))
		w.add(scenario.SeriesCE, r.At, float64(r.DeliveredCE))
	}
}
