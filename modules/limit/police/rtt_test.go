// SPDX-License-Identifier: Apache-2.0

package police

import (
	"testing"
	"time"

	"weir/kernel/clock"
)

// With round trips as long as an interval the fair rate moves half a step, up or down, and
// tolerates a queue of a quarter of a round trip, since senders pause.
func TestFairRateTakesItsTimeWhereRoundTripsAreLong(t *testing.T) {
	const (
		octets = 12_500_000 // a second's at 100 Mbit/s
		fair   = octets / 4
		trip   = time.Second
	)
	l := Limit{Rate: 8 * octets, Mark: 100 * time.Millisecond, Drop: 10 * time.Second}
	for name, c := range map[string]struct {
		trip        time.Duration
		bytes       uint64        // offered in a second
		queue       time.Duration // the shortest that a packet has met
		least, most uint64        // percent of the former fair rate; a busy machine lengthens the interval
	}{
		"little used, short": {0, octets / 2, 0, 124, 140},
		"little used, long":  {trip, octets / 2, 0, 109, 120},
		"overload, short":    {0, octets * 3 / 2, 0, 74, 85},
		"overload, long":     {trip, octets * 3 / 2, 0, 86, 95},
		"queue, short":       {0, octets, trip / 5, 85, 95},
		"queue, long":        {trip, octets, trip / 5, 98, 107},
		"longer queue, long": {trip, octets, trip / 4 * 3, 83, 95},
	} {
		sharing := limitLimitFairShare{Senders: 8, RttUs: uint32(c.trip / time.Microsecond)}
		state := limitLimitState{FairRate: fair, MinIntervalNs: uint64(trip), IntervalBytes: c.bytes, IntervalQueueNs: int64(c.queue)}
		if c.queue > 0 {
			state.FinishNs = clock.Now() + int64(time.Hour)
		}
		got, _ := endedIntervalOf(t, l, sharing, state)
		if percent := got.FairRate * 100 / fair; percent < c.least || percent > c.most {
			t.Errorf("%s: the fair rate is %d %% of before, want %d to %d", name, percent, c.least, c.most)
		}
	}
}

// A sender that resumes after a pause is counted a round trip later: a flow count lasts two round
// trips.
func TestFlowCountWaitsForSendersThatPause(t *testing.T) {
	const octets = 1_250_000 // a second's at 10 Mbit/s
	l := Limit{Rate: 8 * octets, Mark: 100 * time.Millisecond, Drop: 10 * time.Second}
	for trip, ended := range map[time.Duration]bool{0: true, 400 * time.Millisecond: true, 600 * time.Millisecond: false} {
		sharing := limitLimitFairShare{Counted: 3, RttUs: uint32(trip / time.Microsecond)}
		got, after := endedIntervalOf(t, l, sharing, limitLimitState{IntervalBytes: octets, IntervalLargest: packet})
		if (got.FlowCount == 1) != ended || (after.Senders == 3) != ended {
			t.Errorf("round trips of %s: flow count %d, %+v", trip, got.FlowCount, after)
		}
	}
}

// A scope learns the round trips of its senders, in the direction in which they send.
func TestScopeLearnsItsSendersRoundTrips(t *testing.T) {
	client, server, address := path(t)
	p, process := limited(t, Limit{Rate: 10_000_000}, Limit{Rate: MaxRate})
	needStorage(t, p)
	delivered(t, process, client, server, address, 8, 16<<10)
	for direction, told := range map[Direction]bool{Egress: true, Ingress: false} {
		var sharing limitLimitFairShare
		if err := p.objects.LimitShares.Lookup(uint32(direction), &sharing); err != nil {
			t.Fatal(err)
		}
		if (sharing.RttUs > 0) != told {
			t.Errorf("%s: %+v", direction, sharing)
		}
	}
}

// With promptly responding flows, an interval 50 % above and one 50 % below the target leave the
// fair rate unchanged, so that pauses do not lower the mean rate.
func TestPausesLeaveTheMeanRate(t *testing.T) {
	const (
		octets = 12_400_000 // aimed at in a second at 100 Mbit/s
		fair   = octets / 4
	)
	l := Limit{Rate: 100_000_000, Mark: time.Second, Drop: 10 * time.Second}
	both := 1.0
	for _, bytes := range []uint64{octets / 2, octets * 3 / 2} {
		got, _ := endedIntervalOf(t, l, limitLimitFairShare{Senders: 8}, limitLimitState{FairRate: fair, IntervalBytes: bytes})
		both *= float64(got.FairRate) / fair
	}
	// One step after the other, of a quarter each, would leave 94 %.
	if both < 0.97 || both > 1.15 {
		t.Errorf("the two factors make %.3f, want 1", both)
	}
}
