// SPDX-License-Identifier: Apache-2.0

package witness

import (
	"fmt"
	"runtime"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// pulse is a thread of the measuring process that wakes up at intervals, records delays, and
// compares the machine's clocks.
type pulse struct {
	stop  chan struct{}
	done  sync.WaitGroup
	begin clocks

	mu      sync.Mutex
	longest time.Duration // guarded by mu, as the rest is
	missed  time.Duration
	since   time.Duration // monotonic, when missed began to count
}

const (
	beat = 5 * time.Millisecond
	// beatLate is the delay from which an interval counts as missed.
	beatLate = 20 * time.Millisecond

	maxPause  = 150 * time.Millisecond
	maxMissed = 0.05 // share of the time, and minMissed
	minMissed = 100 * time.Millisecond
)

func newPulse() *pulse {
	p := &pulse{stop: make(chan struct{}), begin: readClocks()}
	p.since = p.begin.monotonic
	p.done.Go(p.run)
	return p
}

func (p *pulse) run() {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	for last := monotonic(); ; {
		select {
		case <-p.stop:
			return
		default:
		}
		pause := unix.NsecToTimespec(int64(beat))
		_ = unix.ClockNanosleep(unix.CLOCK_MONOTONIC, 0, &pause, nil)
		now := monotonic()
		if late := now - last - beat; late > beatLate {
			p.mu.Lock()
			p.longest = max(p.longest, late)
			p.missed += late
			p.mu.Unlock()
		}
		last = now
	}
}

// settled resets the record at the end of the settle time.
func (p *pulse) settled() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.longest, p.missed, p.since = 0, 0, monotonic()
}

// end stops the thread and returns the problems. It may be called on nil, and twice.
func (p *pulse) end() (longest time.Duration, reasons []string) {
	if p == nil {
		return 0, nil
	}
	select {
	case <-p.stop:
		return p.longest, nil
	default:
	}
	close(p.stop)
	p.done.Wait()
	now := readClocks()
	span := now.monotonic - p.since
	switch {
	case p.longest > maxPause:
		reasons = append(reasons, fmt.Sprintf("the measuring process stalled for %s; %s are tolerated", p.longest.Round(time.Millisecond), maxPause))
	case p.missed > max(minMissed, time.Duration(maxMissed*float64(span))):
		reasons = append(reasons, fmt.Sprintf("the measuring process stalled for %s of %s; %.0f %% and %s are tolerated",
			p.missed.Round(time.Millisecond), span.Round(time.Millisecond), 100*maxMissed, minMissed))
	}
	return p.longest, append(reasons, compareClocks(p.begin, now)...)
}

// clocks are readings of the machine's clocks at one time.
type clocks struct{ monotonic, raw, boot, real time.Duration }

func readClocks() clocks {
	return clocks{monotonic(), clock(unix.CLOCK_MONOTONIC_RAW), clock(unix.CLOCK_BOOTTIME), clock(unix.CLOCK_REALTIME)}
}

func monotonic() time.Duration { return clock(unix.CLOCK_MONOTONIC) }

func clock(id int32) time.Duration {
	var now unix.Timespec
	_ = unix.ClockGettime(id, &now)
	return time.Duration(now.Nano())
}

const (
	// clockShare is the maximum deviation from the hardware clock: NTP adjusts by at most 500 ppm.
	clockShare = 0.001
	clockStep  = 10 * time.Millisecond
)

// compareClocks reports whether a clock was set, stopped or deviated between two readings.
func compareClocks(begin, end clocks) (reasons []string) {
	span := end.monotonic - begin.monotonic
	for _, c := range []struct {
		name string
		span time.Duration
	}{{"the hardware's clock", end.raw - begin.raw}, {"the clock that counts sleep", end.boot - begin.boot}, {"the wall clock", end.real - begin.real}} {
		if off := c.span - span; off.Abs() > clockStep+time.Duration(clockShare*float64(span)) {
			reasons = append(reasons, fmt.Sprintf("%s went on by %s and the monotonic clock by %s: a clock was set, or stopped", c.name, c.span.Round(time.Millisecond), span.Round(time.Millisecond)))
		}
	}
	return reasons
}
