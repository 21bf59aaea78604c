// SPDX-License-Identifier: Apache-2.0

package packet

import (
	"golang.org/x/sys/unix"

	"weir/kernel/clock"
)

// sleeper waits by a clock.
type sleeper struct{ clock.Monotonic }

func (c sleeper) now() uint64 { return uint64(c.Now()) }

const (
	awake = 80_000     // ns before it is due in which a frame is waited for without sleep
	nap   = 20_000_000 // ns of sleep at most, so that a stop is noticed
)

// wait waits until a time of the clock or for a nap, whichever ends first.
func (c sleeper) wait(until uint64) {
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
