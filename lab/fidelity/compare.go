// SPDX-License-Identifier: Apache-2.0

package fidelity

import (
	"fmt"
	"math"
	"time"

	"weir/lab/link"
	"weir/lab/link/loss"
)

// compare describes the differences of a measurement to the request.
func compare(m Measured, asked link.Direction, train time.Duration) (problems []string) {
	reject := func(format string, args ...any) { problems = append(problems, fmt.Sprintf(format, args...)) }
	if asked.Rate > 0 && asked.Loss.Share() < 1 {
		tolerance := RateTolerance + jitterShare(asked, train)
		if off := float64(m.Rate)/float64(asked.Rate) - 1; math.Abs(off) > tolerance {
			reject("the rate is %s, asked %s (%+.1f %%; %.1f %% are tolerated)", m.Rate, asked.Rate, 100*off, 100*tolerance)
		}
	}
	if m.Loss < m.LossLow || m.Loss > m.LossHigh {
		reject("%.3g %% of %d frames were lost, asked %.3g %% (chance allows %.3g to %.3g %%)",
			100*m.Loss, m.Sent, 100*asked.Loss.Expect(float64(m.Sent)).Share, 100*m.LossLow, 100*m.LossHigh)
	}
	if m.DelayMean == 0 {
		return problems
	}
	measured, low, high := delayBounds(m, asked)
	if measured < low || measured > high {
		reject("the delay is %s, asked %s (%s to %s are tolerated)", round(measured), asked.Delay, round(low), round(high))
	}
	return problems
}

// jitterShare is the uncertainty of a train's rate due to jitter.
func jitterShare(asked link.Direction, train time.Duration) float64 {
	return 4 * asked.Jitter.Seconds() / train.Seconds()
}

// delayBounds returns the figure to judge and its bounds: the median, or with jitter the mean, of
// single frames.
func delayBounds(m Measured, asked link.Direction) (measured, low, high time.Duration) {
	slack := max(DelayTolerance, time.Duration(DelayShare*float64(asked.Delay)))
	expected := asked.Delay + onWire(smallest+14, asked.Rate)
	if asked.Jitter == 0 && asked.Reorder < 0.3 {
		return m.DelayMedian, expected - slack/5, expected + slack
	}
	deviation := float64(asked.Jitter)
	if asked.Shape == link.Uniform || asked.Shape == "" {
		deviation /= math.Sqrt(3)
	}
	// A frame that is not delayed, and jitter that would send before now or out of order, move the
	// mean.
	margin := time.Duration(LossSigma * deviation / math.Sqrt(singles))
	low = time.Duration((1 - asked.Reorder) * float64(expected))
	low -= margin + slack + time.Duration(asked.Reorder*float64(asked.Delay))
	high = expected + margin + slack
	if asked.KeepOrder || asked.Jitter > asked.Delay/2 {
		high += 4 * asked.Jitter
	}
	return m.DelayMean, max(0, low), high
}

// lossBounds returns the expected range of the loss of n frames: LossSigma standard deviations and
// the slack around the request.
func lossBounds(l loss.Loss, n uint64) (low, high float64) {
	if n == 0 {
		return 0, 1
	}
	expected := l.Expect(float64(n))
	margin := LossSigma*math.Sqrt(expected.Variance) + expected.Slack
	return max(0, expected.Share-margin), min(1, expected.Share+margin)
}
