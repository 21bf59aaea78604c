// SPDX-License-Identifier: Apache-2.0

package limit

import (
	"errors"
	"testing"
	"time"
)

// slowTarget is what is aimed at in a second at 1 Mbit/s, octets; 128 flows have a segment each in
// 1.5 s.
const slowTarget = 125_000 * 1016 / 1024

// slowInterval is an interval of three seconds in which 128 senders of a limit of 1 Mbit/s offered
// some part of the target.
func slowInterval(t *testing.T, fair, earlier uint64, offered float64, queue time.Duration) limitLimitState {
	t.Helper()
	const interval = 3 * time.Second
	state := limitLimitState{
		FairRate: fair, IntervalBytes: uint64(offered * slowTarget * interval.Seconds()), IntervalQueueNs: int64(queue), IntervalLeastNs: uint64(interval),
	}
	if queue > 0 {
		state.FinishNs = clock(t) + int64(time.Minute)
	}
	got, _ := endedIntervalOf(t, Limit{Rate: 1_000_000}, limitLimitFairShare{Senders: 128, Earlier: earlier}, state)
	return got
}

// Flows follow a new rate a segment and a half later. What they offer until then is no answer to
// it.
func TestSlowFlowsAreGivenTimeToFollow(t *testing.T) {
	const equal = slowTarget / 128
	for name, c := range map[string]struct {
		fair, earlier uint64
		offered       float64 // of the target
		queue         time.Duration
		least, most   uint64 // percent of an equal part
	}{
		"steady":                {equal, equal, 1, 0, 98, 102},
		"not yet faster":        {equal, equal / 2, 0.5, 0, 98, 102},
		"not yet slower":        {equal * 3 / 4, equal * 3 / 2, 1.5, 0, 72, 80},
		"follow, and use less":  {equal, equal, 0.5, 0, 120, 130},
		"too low, alone":        {equal / 2, equal / 2, 0.53, 0, 92, 95},
		"too low, others' half": {equal / 4, equal / 4, 0.75, 0, 44, 51},
		"short queue":           {equal, equal, 1, 90 * time.Millisecond, 98, 102},
		"queue":                 {equal, equal, 1, 400 * time.Millisecond, 93, 97},
		"full queue, refused":   {equal, equal, 0.5, time.Second, 85, 90},
	} {
		got := slowInterval(t, c.fair, c.earlier, c.offered, c.queue)
		if percent := got.FairRate * 100 / equal; percent < c.least || percent > c.most {
			t.Errorf("%s: the fair rate is %d %% of an equal part, want %d to %d", name, percent, c.least, c.most)
		}
	}
}

// While a queue beyond the drop threshold stands the fair rate of slow flows is no more than an
// equal part, also among those that a flow count still counts.
func TestFullQueueLeavesNobodyMoreThanAnEqualPart(t *testing.T) {
	for _, c := range []struct {
		counted     uint32
		queue       time.Duration
		least, most uint64
	}{
		{100, time.Second, slowTarget/100 - 1, slowTarget/100 + 1},
		{100, 100 * time.Millisecond, slowTarget / 3, slowTarget},
		{10, time.Second, slowTarget / 3, slowTarget}, // they are not slow
	} {
		state := limitLimitState{FairRate: slowTarget, IntervalBytes: slowTarget, IntervalQueueNs: int64(c.queue), FinishNs: clock(t) + int64(time.Minute)}
		sharing := limitLimitFairShare{Senders: 1, Counted: c.counted}
		if got, _ := endedIntervalOf(t, Limit{Rate: 1_000_000}, sharing, state); got.FairRate < c.least || got.FairRate > c.most {
			t.Errorf("%d senders, queue of %s: the fair rate is %d octet/s, want %d to %d", c.counted, c.queue, got.FairRate, c.least, c.most)
		}
	}
}

// The turns of many slow senders may come together, so an interval has a whole number of them, and
// one that ended late does not move the next.
func TestIntervalsHoldWholeTurns(t *testing.T) {
	const (
		fair = 1000 // octet/s, a segment in 1.448 s
		due  = 3 * time.Second
	)
	p := plane(t, 1)
	if err := p.Set(0, Egress, Limit{Rate: 1_000_000, Loopback: true}); err != nil {
		t.Fatal(err)
	}
	for late, moved := range map[time.Duration]bool{100 * time.Millisecond: false, 2 * time.Second: true} {
		start := clock(t) - int64(due+late)
		state := limitLimitState{FairRate: fair, IntervalBytes: 3 * slowTarget, IntervalStartNs: uint64(start), IntervalLeastNs: uint64(due)}
		sharing := limitLimitFairShare{Senders: slowTarget / fair, Earlier: fair}
		if err := errors.Join(p.objects.LimitStates.Put(uint32(0), &state), p.objects.LimitShares.Put(uint32(0), &sharing)); err != nil {
			t.Fatal(err)
		}
		send(t, p.objects.LimitEgress, datagram(t, false, 0, payload4))
		if err := p.objects.LimitStates.Lookup(uint32(0), &state); err != nil {
			t.Fatal(err)
		}
		if turns := float64(state.IntervalLeastNs) * float64(min(fair, state.FairRate)) / 1448e9; turns < 1.99 || turns > 2.01 {
			t.Errorf("the interval is %s, %.2f turns, want 2", time.Duration(state.IntervalLeastNs), turns)
		}
		if next := int64(state.IntervalStartNs) - start; (next != int64(due)) != moved {
			t.Errorf("%s late: the next interval begins %s after the last one's begin; moved, want %v", late, time.Duration(next), moved)
		}
	}
}
