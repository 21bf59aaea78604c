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
	awake = 80_000     // ns before the due time that are spent busy-waiting
	nap   = 20_000_000 // maximum sleep in ns, so that Stop takes effect
)

// wait waits until a time of the clock, at most for one nap.
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
			return // after a signal or a nap the caller checks for Stop
		}
	}
}
