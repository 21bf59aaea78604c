// SPDX-License-Identifier: Apache-2.0

package delay

import (
	"math"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// Of what is forwarded TCP alone is dropped for a queue that stands, and not for a burst.
func TestStandingQueuesOfTCPAreShortened(t *testing.T) {
	const device, many = 1, 400
	l := long(1, 0)
	l.Mark, l.Horizon = time.Hour, 1000*time.Hour // one of 27 is dropped at four hours
	line := l.config(Fq)
	line.Flags |= delayDelayFlagsDELAY_RECEIVED // a test run's packets have a socket
	const standing, burst = -time.Second, time.Hour // since when it stands; that one has begun is known by then
	for _, test := range []struct {
		name     string
		protocol byte
		octets   int
		queue    time.Duration
		since    time.Duration
		used     uint32
		drops    bool
	}{
		{"TCP", unix.IPPROTO_TCP, 1000, 4 * time.Hour, standing, 0, true},
		{"TCP, a burst", unix.IPPROTO_TCP, 1000, 4 * time.Hour, burst, 0, false},
		{"TCP, a short queue", unix.IPPROTO_TCP, 1000, 2 * time.Hour, standing, 0, false},
		{"TCP, an acknowledgement", unix.IPPROTO_TCP, 60, 4 * time.Hour, standing, 0, false},
		{"TCP, held by its receiver", unix.IPPROTO_TCP, 1000, 4 * time.Hour, standing, math.MaxUint32, false},
		{"UDP", unix.IPPROTO_UDP, 1000, 4 * time.Hour, standing, 0, false},
	} {
		b := newBench(t)
		if err := b.p.set(device, line); err != nil {
			t.Fatal(err)
		}
		b.stateOf(device, test.queue, test.queue, 1)
		b.flows(delayDelayFlow{FinishNs: monotonic(t) + int64(100*time.Hour), UsedNs: test.used, StandingSinceNs: uint64(monotonic(t) + int64(test.since))})
		f, dropped := datagram(one4, to4, test.octets), 0
		f[14+9] = test.protocol
		for range many {
			if _, passes := b.charge(f); !passes {
				dropped++
			}
		}
		c, err := b.p.counters(device)
		if err != nil || (dropped > 0) != test.drops || int(c.Early) != dropped {
			t.Errorf("%s: %d of %d are dropped, counted %+v (%v)", test.name, dropped, many, c, err)
		}
	}
}
