// SPDX-License-Identifier: Apache-2.0

package ndt7

import (
	"context"
	"math/rand/v2"
	"time"
)

// pause draws the time to the next text message.
func pause() time.Duration {
	return min(max(time.Duration(rand.ExpFloat64()*float64(meanPause)), minPause), maxPause)
}

// cadence calls do at each point of the Poisson process until ctx ends.
func cadence(ctx context.Context, do func()) {
	timer := time.NewTimer(pause())
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
			do()
			timer.Reset(pause())
		}
	}
}
