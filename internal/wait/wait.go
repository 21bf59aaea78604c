// SPDX-License-Identifier: Apache-2.0

// Package wait waits for a duration or the end of a context.
package wait

import (
	"context"
	"time"
)

// For waits for d. If ctx ends first, it returns the error of ctx.
func For(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
	return ctx.Err()
}
