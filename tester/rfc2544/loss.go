// SPDX-License-Identifier: Apache-2.0

package rfc2544

import (
	"context"
	"fmt"
	"math"
)

// LossPoint is the frame loss rate at one offered rate (section 26.3).
type LossPoint struct {
	Percent float64 // of the maximum rate
	Rate    float64 // requested frame/s in each direction
	Offered float64 // frame/s sent
	Loss    float64 // share lost
	Reason  string  // reason if the point is not valid
}

// LossResult is the frame loss rate of one frame size over the rates.
type LossResult struct {
	Size    int
	Maximum float64 // frame/s: the rate of 100 %
	Line    bool    // Maximum is the medium's; otherwise the tester's highest rate
	Points  []LossPoint
	Reason  string
}

func (r *runner) frameLoss(ctx context.Context, size int) (LossResult, error) {
	result := LossResult{Size: size, Maximum: MaxFrameRate(r.Speed, size), Line: r.Speed > 0}
	if result.Maximum == 0 {
		result.Maximum = r.HighestOffers
	}
	if result.Maximum == 0 {
		flood, err := r.valid(ctx, FrameLoss, Trial{Size: size, Duration: r.LossTime})
		if u := unfit(err); u != nil {
			result.Reason = u.Error()
			return result, nil
		} else if err != nil {
			return result, err
		}
		result.Maximum = flood.slowest(func(f Flow) float64 { return f.Offered }) * (1 - r.MaxShort)
	}
	step := min(max(r.LossStep, 0.001), 0.1)
	clean, limit := 0, math.Inf(1)
	if r.HighestOffers > 0 {
		limit = r.HighestOffers
	}
	for i := 0; clean < 2; i++ {
		share := 1 - float64(i)*step
		if share < step/2 {
			break
		}
		point, err := r.lossPoint(ctx, size, share, result.Maximum, &limit)
		if err != nil {
			return result, err
		}
		result.Points = append(result.Points, point)
		switch {
		case point.Reason != "": // neither clean nor lossy
		case point.Loss == 0:
			clean++
		default:
			clean = 0
		}
	}
	return result, nil
}

// lossPoint measures one rate, unless it is above the tester's limit, which it updates.
func (r *runner) lossPoint(ctx context.Context, size int, share, maximum float64, limit *float64) (LossPoint, error) {
	point := LossPoint{Percent: 100 * share, Rate: share * maximum}
	if point.Rate > *limit*(1+r.MaxShort) {
		point.Reason = fmt.Sprintf("the tester offers %.0f frame/s at most", *limit)
		return point, nil
	}
	outcome, err := r.valid(ctx, FrameLoss, Trial{Size: size, Rate: point.Rate, Duration: r.LossTime})
	if u := unfit(err); u != nil {
		point.Reason, point.Offered = u.Reason, u.Best
		if u.Short {
			*limit = u.Best
		}
		return point, nil
	}
	if err != nil {
		return point, err
	}
	point.Offered = outcome.slowest(func(f Flow) float64 { return f.Offered })
	point.Loss = float64(outcome.Lost()) / float64(outcome.Sent())
	return point, nil
}
