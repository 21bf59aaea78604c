// SPDX-License-Identifier: Apache-2.0

package rfc2544

import (
	"context"
	"fmt"
	"math"
	"time"
)

// BurstResult is the longest burst without loss (section 26.4 and RFC 9004 section 6).
type BurstResult struct {
	Size       int
	Lengths    []float64 // frames, one per repetition
	MaxLength  uint64    // frames: the search's upper limit
	Step       int       // frames: its smallest step
	Rate       float64   // frame/s within a burst: the medium's maximum, or the tester's
	Throughput float64   // frame/s, from section 26.1
	AtLimit    bool      // a repetition reached MaxLength: the result is a lower bound
	Reason     string    // reason if it was not measured

	paced bool // bursts are paced at Rate; otherwise sent as fast as possible, and Rate is measured
}

// Implied and Corrected are the buffer times of RFC 9004 section 6.4 for a mean length, in seconds.
func (b BurstResult) Implied(mean float64) float64 { return mean / b.Rate }

// Corrected excludes the frames that the device forwarded during the burst.
func (b BurstResult) Corrected(mean float64) float64 {
	implied := b.Implied(mean)
	return implied - implied*b.Throughput/b.Rate
}

func (r *runner) backToBack(ctx context.Context, t ThroughputResult) (BurstResult, error) {
	result := BurstResult{Size: t.Size, Step: max(r.BurstStep, 1), Throughput: t.Rate}
	if !t.Measured() {
		result.Reason = "the throughput, which it needs (RFC 9004 section 5), was not measured"
		return result, nil
	}
	if t.Limit != ByDevice {
		result.Reason = fmt.Sprintf("the device forwards the highest rate of the %s without loss: no burst fills its buffers (RFC 9004 section 6.1)", t.Limit)
		return result, nil
	}
	if err := r.burstRate(ctx, &result); err != nil {
		return fail(result, err)
	}
	result.MaxLength = uint64(max(result.Rate*r.MaxBurst.Seconds(), 2))
	for range r.BurstRuns {
		length, err := r.maxBurst(ctx, result)
		if err != nil {
			return fail(result, err)
		}
		result.AtLimit = result.AtLimit || length == result.MaxLength
		result.Lengths = append(result.Lengths, float64(length))
	}
	return result, nil
}

func fail(result BurstResult, err error) (BurstResult, error) {
	if u := unfit(err); u != nil {
		result.Reason = u.Error()
		return result, nil
	}
	return result, err
}

// burstRate sets the rate within bursts: the line's or the user's limit, otherwise a measured one.
func (r *runner) burstRate(ctx context.Context, result *BurstResult) error {
	result.Rate = MaxFrameRate(r.Speed, result.Size)
	if r.HighestOffers > 0 && (result.Rate == 0 || r.HighestOffers < result.Rate) {
		result.Rate = r.HighestOffers
	}
	if result.Rate > 0 {
		result.paced = true
		return nil
	}
	flood, err := r.valid(ctx, BackToBack, Trial{Size: result.Size, Duration: r.SearchTime})
	if err != nil {
		return err
	}
	result.Rate = flood.slowest(func(f Flow) float64 { return f.Offered })
	if result.Rate <= result.Throughput {
		return &unfitError{Reason: "the tester's bursts are not faster than the throughput"}
	}
	return nil
}

// maxBurst is one search: lengths double until frames are lost, then the interval is halved
// down to the step.
func (r *runner) maxBurst(ctx context.Context, b BurstResult) (uint64, error) {
	try := func(length uint64) (bool, error) {
		t := Trial{Size: b.Size, Frames: length, Duration: burstTime(length, b.Rate)}
		if b.paced {
			t.Rate = b.Rate
		}
		pass, _, err := r.passes(ctx, BackToBack, t)
		return pass, err
	}
	var low, high uint64
	for length := min(uint64(64), b.MaxLength); ; length = min(2*length, b.MaxLength) {
		pass, err := try(length)
		if err != nil {
			return 0, err
		}
		if !pass {
			high = length
			break
		}
		low = length
		if length == b.MaxLength {
			return low, nil
		}
	}
	for high-low > uint64(b.Step) {
		middle := low + (high-low)/2
		pass, err := try(middle)
		if err != nil {
			return 0, err
		}
		if pass {
			low = middle
		} else {
			high = middle
		}
	}
	return low, nil
}

// burstTime returns the duration of a burst, with a margin for a slow start.
func burstTime(length uint64, rate float64) time.Duration {
	return time.Duration(math.Ceil(2*float64(length)/rate*1e9)) + 100*time.Millisecond
}
