// SPDX-License-Identifier: Apache-2.0

package rfc2544

import (
	"context"
	"fmt"
	"time"
)

// RecoveryResult is the time after an overload until the device loses no more frames (section
// 26.5).
type RecoveryResult struct {
	Size     int
	Rate     float64   // frame/s: the throughput
	Overload float64   // frame/s: 110 % of it, or the tester's highest rate
	Times    []float64 // s, one per repetition
	Reason   string
}

func (r *runner) recovery(ctx context.Context, t ThroughputResult) (RecoveryResult, error) {
	result := RecoveryResult{Size: t.Size, Rate: t.Rate, Overload: 1.1 * t.Rate}
	if !t.Measured() {
		result.Reason = "its rates are shares of the throughput, which was not measured"
		return result, nil
	}
	if t.Limit != ByDevice {
		result.Reason = fmt.Sprintf("the device forwards the highest rate of the %s without loss: it cannot be overloaded", t.Limit)
		return result, nil
	}
	if t.Theoretical > 0 {
		result.Overload = min(result.Overload, t.Theoretical)
	}
	for len(result.Times) < r.RecoveryRuns {
		outcome, err := r.valid(ctx, Recovery, Trial{
			Size: t.Size, Rate: result.Overload, Duration: r.OverloadTime,
			Then: &Step{Rate: result.Overload / 2, Duration: r.RecoveredTime},
		})
		if u := unfit(err); u != nil && u.Short && u.Best > t.Rate*1.01 && u.Best < result.Overload {
			result.Overload = u.Best * (1 - r.MaxShort) // the tester's highest rate
			continue
		} else if u != nil {
			result.Reason = u.Error()
			return result, nil
		}
		if err != nil {
			return result, err
		}
		slowest := time.Duration(0)
		for _, f := range outcome.Directions {
			slowest = max(slowest, f.LastLoss)
		}
		result.Times = append(result.Times, slowest.Seconds())
	}
	return result, nil
}

// ResetResult is the time for which a reset silences the device (section 26.6).
type ResetResult struct {
	Kind   string
	Size   int
	Rate   float64
	Time   float64 // s, from the last frame before to the first one after
	Reason string
}

func (r *runner) reset(ctx context.Context, t ThroughputResult, kind ResetKind) (ResetResult, error) {
	result := ResetResult{Kind: kind.Name, Size: t.Size, Rate: t.Rate}
	if !t.Measured() {
		result.Reason = "its rate is the throughput, which was not measured"
		return result, nil
	}
	if err := r.learn(ctx, t.Size); err != nil {
		return result, err
	}
	silence, err := r.bench.Silence(ctx, Trial{Size: t.Size, Rate: t.Rate, Duration: r.ResetTime}, kind.Trigger)
	if u := unfit(err); u != nil {
		result.Reason = u.Reason
		return result, nil
	}
	if err != nil {
		return result, fmt.Errorf("%s reset: %w", kind.Name, err)
	}
	result.Time = silence.Seconds()
	r.say("reset (%s): silent for %s", kind.Name, silence)
	return result, nil
}
