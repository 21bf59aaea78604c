// SPDX-License-Identifier: Apache-2.0

// Package clock reads CLOCK_MONOTONIC, the clock of bpf_ktime_get_ns: once by a system call (Now),
// or often without one (Monotonic). The Go runtime reads it through the vDSO (vdso(7)); x/sys makes
// a system call for each reading.
package clock

import (
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// attempts is the number of paired readings at the start; the closest pair counts.
const attempts = 32

// Monotonic reads CLOCK_MONOTONIC. Create one with [New]. It may be copied and is safe for
// concurrent use.
type Monotonic struct {
	base time.Time
	at   int64 // CLOCK_MONOTONIC of base, ns
}

// New returns a clock with an error of at most half the duration of a reading. The runtime's clock
// runs at the same rate, so the error stays constant.
func New() (Monotonic, error) {
	var best Monotonic
	closest := time.Duration(1 << 62)
	for range attempts {
		var now unix.Timespec
		before := time.Now()
		if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err != nil {
			return best, fmt.Errorf("read CLOCK_MONOTONIC: %w", err)
		}
		if span := time.Since(before); span < closest {
			closest = span
			best = Monotonic{base: before, at: now.Nano() - span.Nanoseconds()/2}
		}
	}
	return best, nil
}

// Now returns the time in ns.
func (m Monotonic) Now() int64 { return m.at + int64(time.Since(m.base)) }

// Now reads CLOCK_MONOTONIC by a system call, in ns.
func Now() int64 {
	var now unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &now) // fails for unknown clocks only
	return now.Nano()
}
