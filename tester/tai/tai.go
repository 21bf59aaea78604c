// SPDX-License-Identifier: Apache-2.0

// Package tai relates CLOCK_MONOTONIC, which BPF programs read, to TAI, which stamps carry.
//
// Both ends of a measurement read the offset once, at their start. On one machine the two readings
// agree to some ten ns; a clock step between the two starts shifts all delays by the step. A kernel
// without a TAI offset counts UTC as TAI. On one machine that has no effect; if only one of
// two machines has the offset, the error is 37 s.
package tai

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// rounds is the number of clock comparisons; the closest one counts.
const rounds = 32

// Offset returns the ns to add to CLOCK_MONOTONIC for TAI.
func Offset() (int64, error) {
	var before, now, after unix.Timespec
	var offset int64
	closest := int64(1 << 62)
	for range rounds {
		if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &before); err != nil {
			return 0, fmt.Errorf("read CLOCK_MONOTONIC: %w", err)
		}
		if err := unix.ClockGettime(unix.CLOCK_TAI, &now); err != nil {
			return 0, fmt.Errorf("read CLOCK_TAI: %w", err)
		}
		if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &after); err != nil {
			return 0, fmt.Errorf("read CLOCK_MONOTONIC: %w", err)
		}
		if span := after.Nano() - before.Nano(); span < closest {
			closest = span
			offset = now.Nano() - before.Nano() - span/2
		}
	}
	return offset, nil
}
