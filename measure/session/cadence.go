// SPDX-License-Identifier: Apache-2.0

package session

import (
	"context"
	"math/rand/v2"
	"time"
)

// Pace is a Poisson process of text messages, with clamped pauses.
type Pace struct{ Mean, Min, Max time.Duration }

// Pause draws the time to the next message.
func (p Pace) Pause() time.Duration {
	return min(max(time.Duration(rand.ExpFloat64()*float64(p.Mean)), p.Min), p.Max)
}

// Follow calls do at each point of the process until ctx ends.
func (p Pace) Follow(ctx context.Context, do func()) {
	timer := time.NewTimer(p.Pause())
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
			do()
			timer.Reset(p.Pause())
		}
	}
}
