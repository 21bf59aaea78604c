// SPDX-License-Identifier: Apache-2.0

package datagrams

import (
	"testing"
	"time"

	"weir/internal/dscp"
	"weir/kernel/testutil"
)

// answered steers by echoes with a round trip for a time, from the start of the clock on.
func answered(s *steering, clock *time.Time, rtt, d time.Duration) {
	type flight struct {
		seq uint16
		at  time.Time
	}
	var coming []flight
	const step = 20 * time.Millisecond
	for until := clock.Add(d); clock.Before(until); *clock = clock.Add(step) {
		for len(coming) > 0 && !coming[0].at.After(*clock) {
			s.take(reply{s.echoes, coming[0].seq, coming[0].at})
			coming = coming[1:]
		}
		s.expire(*clock)
		coming = append(coming, flight{s.request(*clock), clock.Add(rtt)})
	}
}

// TestLongRoundTripsAreMeasured steers over long paths: replies later than the first patience, and
// than that of a short path, are samples.
func TestLongRoundTripsAreMeasured(t *testing.T) {
	testutil.NeedRoot(t)
	for name, before := range map[string]time.Duration{"from the start": 0, "after a short path": 20 * time.Millisecond} {
		t.Run(name, func(t *testing.T) {
			h, err := load(dscp.LowEffort)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = h.detach() }()
			s, clock := &h.steering, h.began
			s.echoes, s.now, s.heard = &echoes{}, newController(0), clock
			if before > 0 {
				answered(s, &clock, before, time.Second)
			}
			answered(s, &clock, 300*time.Millisecond, 3*time.Second)
			if s.now.srtt < 250*time.Millisecond {
				t.Errorf("the round trip is %v, want 300 ms", s.now.srtt)
			}
			if before == 0 && s.now.rate <= Unmeasured {
				t.Errorf("the rate is %.0f octets/s, as without replies", s.now.rate)
			}
		})
	}
}

// TestRequestsWithoutReplyAreForgotten loses all replies.
func TestRequestsWithoutReplyAreForgotten(t *testing.T) {
	testutil.NeedRoot(t)
	h, err := load(dscp.LowEffort)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = h.detach() }()
	s, clock := &h.steering, h.began
	s.echoes, s.now, s.heard = &echoes{}, newController(0), clock
	answered(s, &clock, 20*time.Millisecond, time.Second)
	former := s.now.rate
	answered(s, &clock, time.Hour, 5*time.Second)
	if s.now.rate > min(former/2, Unmeasured) {
		t.Errorf("the rate is %.0f octets/s after %.0f, want less than half", s.now.rate, former)
	}
	if len(s.sent) > 150 {
		t.Errorf("%d requests wait for replies", len(s.sent))
	}
}
