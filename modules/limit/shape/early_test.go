// SPDX-License-Identifier: Apache-2.0

package shape

import (
	"math"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"weir/kernel/clock"
)

// standingShaper returns a bench with an ingress shaper, since packets of a test run have a socket.
// Queues stand from 2.5 minutes of delay on; early drops begin at five.
func standingShaper(t *testing.T, by Mechanism) *bench {
	t.Helper()
	b, l := newBench(t), long(1, 0)
	l.Mark, l.Horizon = time.Minute, 1000*time.Hour
	config := l.config(by)
	config.Flags |= shapeShaperFlagsSHAPER_RECEIVED
	if err := b.p.set(loopback, config); err != nil {
		t.Fatal(err)
	}
	return b
}

// A standing queue causes early drops of forwarded TCP only; a burst causes none.
func TestStandingQueuesOfTCPAreShortened(t *testing.T) {
	const many = 400 // packets; 1 in 27 is dropped at four minutes
	const long, short = 4 * time.Minute, 2 * time.Minute
	const lasts, begins = -10 * time.Second, time.Minute // ages of a standing queue; a burst does not end within the test
	for _, test := range []struct {
		name     string
		protocol byte
		octets   int
		queue    time.Duration
		since    time.Duration
		used     uint32
		drops    bool
	}{
		{"TCP", unix.IPPROTO_TCP, 1000, long, lasts, 0, true},
		{"TCP, a burst", unix.IPPROTO_TCP, 1000, long, begins, 0, false},
		{"TCP, a short queue", unix.IPPROTO_TCP, 1000, short, lasts, 0, false},
		{"TCP, an acknowledgement", unix.IPPROTO_TCP, 60, long, lasts, 0, false},
		{"TCP, held by its receiver", unix.IPPROTO_TCP, 1000, long, lasts, math.MaxUint32, false},
		{"UDP", unix.IPPROTO_UDP, 1000, long, lasts, 0, false},
	} {
		b := standingShaper(t, Fq)
		b.stateOf(loopback, test.queue, test.queue, 1)
		b.flows(shapeShaperFlow{FinishNs: clock.Now() + int64(100*time.Hour), UsedNs: test.used, DepartureNs: moment(t, test.queue), StandingSinceNs: moment(t, test.since)})
		dropped := 0
		for range many {
			if _, passes := b.charge(segment(test.protocol, test.octets)); !passes {
				dropped++
			}
		}
		c, err := b.p.counters(loopback)
		if err != nil || (dropped > 0) != test.drops || int(c.Early) != dropped {
			t.Errorf("%s: %d of %d are dropped, counted %+v (%v)", test.name, dropped, many, c, err)
		}
	}
}

// A queue stands once a packet waits long behind another one of its flow, until one does not.
func TestAQueueStandsBehindItsOwnPackets(t *testing.T) {
	const long, short = 4 * time.Minute, 2 * time.Minute
	for _, test := range []struct {
		name   string
		by     Mechanism
		queue  time.Duration
		before time.Duration // when the flow's packet before departs
		stood  bool          // before
		stands bool
	}{
		{"long, behind its own", Fq, long, long, false, true},
		{"long, behind others'", Fq, long, -time.Second, false, false},
		{"long, and before", Fq, long, long, true, true},
		{"long, behind others', and stood before", Fq, long, -time.Second, true, false},
		{"short", Fq, short, short, false, false},
		{"short, and stood before", Fq, short, short, true, false},
		{"without fair queueing", HTB, long, long, false, false},
	} {
		b := standingShaper(t, test.by)
		b.stateOf(loopback, test.queue, test.queue, 1)
		flow := shapeShaperFlow{FinishNs: clock.Now() + int64(100*time.Hour), DepartureNs: moment(t, test.before)}
		if test.stood {
			flow.StandingSinceNs = moment(t, time.Minute) // not long enough to be dropped for
		}
		b.flows(flow)
		if _, passes := b.charge(segment(unix.IPPROTO_TCP, 1000)); !passes {
			t.Fatalf("%s: dropped", test.name)
		}
		changed := 0
		for i := range b.p.maps.DelayFlows.MaxEntries() {
			var got shapeShaperFlow
			if err := b.p.maps.DelayFlows.Lookup(i, &got); err != nil {
				t.Fatal(err)
			}
			if got.DepartureNs == flow.DepartureNs {
				continue
			}
			if changed++; (got.StandingSinceNs != 0) != test.stands {
				t.Errorf("%s: stands since %d", test.name, got.StandingSinceNs)
			}
		}
		if changed != 1 {
			t.Errorf("%s: %d flows are changed", test.name, changed)
		}
	}
}
