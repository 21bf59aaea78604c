// SPDX-License-Identifier: Apache-2.0

// Package wait waits for a time that the caller may cut short.
package wait

import (
	"context"
	"time"
)

// For waits for d, or until ctx ends, whose error it then returns.
func For(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
	return ctx.Err()
}
