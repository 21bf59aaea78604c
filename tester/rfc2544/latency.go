// SPDX-License-Identifier: Apache-2.0

package rfc2544

import (
	"context"

	"weir/record/hist"
	"weir/record/stats"
)

// LatencyResult is the latency of one frame size at its throughput rate (section 26.2). Every frame
// carries a stamp, so each run gives the mean over all its frames instead of one tagged frame's;
// the result is the mean over the runs.
type LatencyResult struct {
	Size    int
	Rate    float64 // frame/s in each direction
	Runs    []LatencyRun
	Delays  *hist.Histogram // ns, all frames of all valid runs
	Batched bool            // frames left in batches: the rate is too high for one at a time, and the wait in the batch is included
	Reason  string          // reason if it was not measured
}

// LatencyRun is the mean delay of one repetition, in seconds.
type LatencyRun struct {
	Mean float64
	Lost uint64
}

func (r *runner) latency(ctx context.Context, t ThroughputResult) (LatencyResult, error) {
	result := LatencyResult{Size: t.Size, Rate: t.Rate, Delays: &hist.Histogram{}}
	if !t.Measured() {
		result.Reason = "its rate is the throughput, which was not measured"
		return result, nil
	}
	trial := Trial{Size: t.Size, Rate: t.Rate, Duration: r.LatencyTime, Batch: 1}
	for len(result.Runs) < r.LatencyRuns {
		outcome, err := r.valid(ctx, Latency, trial)
		if u := unfit(err); u != nil && u.Short && trial.Batch == 1 {
			r.say("latency %d octets: one frame at a time is too slow for this rate: frames leave in batches", t.Size)
			trial.Batch, result.Batched = 0, true
			continue
		} else if u != nil {
			result.Reason = u.Error()
			return result, nil
		}
		if err != nil {
			return result, err
		}
		all := &hist.Histogram{}
		for _, f := range outcome.Directions {
			all.Merge(f.Delay)
		}
		if all.Count() == 0 {
			result.Reason = "no frame arrived at the throughput rate"
			return result, nil
		}
		result.Delays.Merge(all)
		result.Runs = append(result.Runs, LatencyRun{Mean: all.Mean() / 1e9, Lost: outcome.Lost()})
	}
	return result, nil
}

// Means returns the means of the runs in seconds.
func (l LatencyResult) Means() []float64 {
	means := make([]float64, len(l.Runs))
	for i, run := range l.Runs {
		means[i] = run.Mean
	}
	return means
}

// Estimate returns the latency over the runs with its 95 % interval, in seconds.
func (l LatencyResult) Estimate() stats.Estimate { return stats.Of(l.Means()) }
