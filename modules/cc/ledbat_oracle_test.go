// SPDX-License-Identifier: Apache-2.0

package cc

import (
	"math"
	"time"
)

// ledbatModel is LEDBAT++ in real numbers, written from draft-irtf-iccrg-ledbat-plus-plus, sections
// 4.1 to 4.5, and from the description of the two additions. It computes the permitted windows
// after a step from the step's inputs.
type ledbatModel struct {
	target            time.Duration
	explore, tolerant bool
}

// Parameters of the draft.
const (
	maxDivisor   = 16
	minWindow    = 2
	slowdownRest = 9 // time to the next slowdown, relative to the duration of the last
)

// gain is section 4.2: GAIN = 1 / min(16, ceil(2*TARGET/base)).
func (m ledbatModel) gain(base time.Duration) float64 {
	return 1 / math.Max(1, math.Min(maxDivisor, math.Ceil(2*float64(m.target)/float64(base))))
}

// avoidance returns the window after acked segments in congestion avoidance. The draft's equation
// applies to a round trip with a whole window; each segment contributes its part.
func (m ledbatModel) avoidance(window float64, step LEDBATEvent) float64 {
	change := 0.0
	if step.Limited {
		change = m.gain(step.Base) / math.Floor(window)
	}
	if excess := float64(step.Delay)/float64(m.target) - 1; excess > 0 {
		change = math.Max(change-excess, -0.5)
	}
	return math.Max(minWindow, window+float64(step.Acked)*change)
}

// slowStart returns the window after acked segments in slow start, which grows a quarter as fast
// above the former window.
func (m ledbatModel) slowStart(window float64, step LEDBATEvent, saved uint32) float64 {
	gain := m.gain(step.Base)
	if m.explore && step.Phase == Climb && math.Floor(window) >= float64(saved) {
		gain /= 4
	}
	if !step.Limited {
		return window
	}
	return window + float64(step.Acked)*gain
}

// ends reports whether the delay ends slow start: at three quarters of the target.
func (m ledbatModel) ends(delay time.Duration) bool { return delay > m.target*3/4 }

// climbed reports whether slow start after a slowdown is complete.
func (m ledbatModel) climbed(window float64, saved uint32, delay time.Duration) bool {
	return window >= float64(saved) && (!m.explore || delay >= m.target/4)
}

// afterLoss returns the windows permitted after a loss: half, or with tolerance the path's capacity
// without a queue, or the whole window in slow start without a queue.
func (m ledbatModel) afterLoss(window float64, step LEDBATEvent, rising bool) (allowed []float64) {
	allowed = []float64{math.Max(minWindow, math.Floor(window/2))}
	if !m.tolerant {
		return allowed
	}
	held := window * float64(step.Base) / float64(step.Base+step.Delay)
	allowed = append(allowed, math.Max(allowed[0], math.Floor(held)))
	if rising && step.Delay < m.target/4 {
		allowed = append(allowed, window)
	}
	return allowed
}

// settled returns the window after slow start if delay ended it: unchanged, or with explore the
// bytes that the path delivers in a base delay and half of the target.
func (m ledbatModel) settled(window float64, step LEDBATEvent) float64 {
	if !m.explore || step.Rate == 0 {
		return window
	}
	fits := math.Floor(step.Rate * (step.Base + m.target/2).Seconds())
	return math.Max(minWindow, math.Min(math.Floor(window), fits))
}

// holds returns the number of further segments with delays of a larger window.
func (m ledbatModel) holds(step LEDBATEvent) int {
	if !m.explore {
		return 0
	}
	return int(step.Flight)
}
