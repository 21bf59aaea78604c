// SPDX-License-Identifier: Apache-2.0

package packet

import (
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// clock reads CLOCK_MONOTONIC through the runtime, which does so without a system call.
type clock struct {
	base time.Time
	at   uint64 // CLOCK_MONOTONIC of base, ns
}

func newClock() (clock, error) {
	var best clock
	closest := time.Duration(1 << 62)
	for range 32 {
		var now unix.Timespec
		before := time.Now()
		if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err != nil {
			return best, fmt.Errorf("read CLOCK_MONOTONIC: %w", err)
		}
		if span := time.Since(before); span < closest {
			closest = span
			best = clock{base: before, at: uint64(now.Nano() - span.Nanoseconds()/2)}
		}
	}
	return best, nil
}

func (c clock) now() uint64 { return c.at + uint64(time.Since(c.base)) }

const (
	awake = 80_000     // ns before it is due in which a frame is waited for without sleep
	nap   = 20_000_000 // ns of sleep at most, so that a stop is noticed
)

// wait waits until a time of the clock or for a nap, whichever ends first.
func (c clock) wait(until uint64) {
	for {
		now := c.now()
		if now >= until {
			return
		}
		if until-now <= awake {
			continue
		}
		sleep := unix.NsecToTimespec(int64(min(until-awake, now+nap)))
		if unix.ClockNanosleep(unix.CLOCK_MONOTONIC, unix.TIMER_ABSTIME, &sleep, nil) != nil || until-now > nap {
			return // after a signal or a nap the caller looks around
		}
	}
}
