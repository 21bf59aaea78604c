// SPDX-License-Identifier: Apache-2.0

package police

import (
	"errors"
	"testing"
	"time"

	"weir/internal/units"
	"weir/kernel/clock"
)

// After its first packet a scope reports the charged queue, and pacing starts at the whole rate.
func TestStateShowsTheQueueAndTheFairRate(t *testing.T) {
	p := plane(t, 1)
	// 64 kbit/s: a packet of 1000 bytes takes 125 ms, long enough for a busy machine to observe.
	if err := p.Set(0, Egress, Limit{Rate: MinRate, Loopback: true, Burst: time.Nanosecond, Mark: 20 * time.Second, Drop: 40 * time.Second}); err != nil {
		t.Fatal(err)
	}
	before, err := p.State(0, Egress)
	if err != nil {
		t.Fatal(err)
	}
	if before.Queue != 0 || before.FairRate != MinRate {
		t.Errorf("an idle scope has %+v, want no queue and a fair rate of %s", before, MinRate)
	}
	const packets = 80
	for range packets {
		send(t, p.objects.LimitEgress, datagram(t, false, 0, payload4))
	}
	after, err := p.State(0, Egress)
	if err != nil {
		t.Fatal(err)
	}
	if most := packets * 126 * time.Millisecond; after.Queue <= 0 || after.Queue > most {
		t.Errorf("after %d packets the queue is %s, want up to %s", packets, after.Queue, most)
	}
	if _, err := p.State(1, Egress); err == nil {
		t.Error("a scope that was not loaded has a state")
	}
}

// Unresponsive traffic leaves the lowest fair rate behind. The first packet after a silence
// restores it; while half of the rate is used, nothing is restored at once.
func TestSilenceRestoresTheFairRate(t *testing.T) {
	p := plane(t, 1)
	const rate = 100_000_000
	for name, c := range map[string]struct {
		octets      uint64 // in the second before
		least, most float64
	}{
		"silence": {0, 0.99 * rate, 1.3 * rate},
		"in use":  {rate / 8 * 3 / 4, rate / 2000, rate / 500},
	} {
		if err := p.Set(0, Egress, Limit{Rate: rate, Loopback: true}); err != nil {
			t.Fatal(err)
		}
		now := clock.Now()
		state := limitLimitState{FairRate: rate / 8 / 1000, IntervalBytes: c.octets, IntervalStartNs: uint64(now - 1e9)}
		if err := p.objects.LimitStates.Put(uint32(0), &state); err != nil {
			t.Fatal(err)
		}
		send(t, p.objects.LimitEgress, datagram(t, false, 0, payload4))
		got, err := p.State(0, Egress)
		if err != nil || float64(got.FairRate) < c.least || float64(got.FairRate) > c.most {
			t.Errorf("%s: fair rate %s (%v), want %.0f to %.0f", name, got.FairRate, err, c.least, c.most)
		}
	}
}

// A second after unresponsive traffic at twice the limit, which leaves the lowest fair rate, the
// next packet restores the rate: the interval need not hold super-packets at a rate without TCP
// senders.
func TestIdleTimeAfterAFloodRestoresTheFairRate(t *testing.T) {
	p := plane(t, 1)
	const rate = 10_000_000
	now := clock.Now()
	flood := limitLimitState{FairRate: rate / 8 / 1000, IntervalBytes: rate / 8 * 2, IntervalQueueNs: int64(time.Minute), IntervalStartNs: uint64(now - 1e9),
		FinishNs: now + int64(time.Minute)}
	if err := errors.Join(p.Set(0, Egress, Limit{Rate: rate, Loopback: true}), p.objects.LimitStates.Put(uint32(Egress), &flood)); err != nil {
		t.Fatal(err)
	}
	frame := datagram(t, false, 0, payload4)
	send(t, p.objects.LimitEgress, frame)
	var state limitLimitState
	if err := p.objects.LimitStates.Lookup(uint32(Egress), &state); err != nil {
		t.Fatal(err)
	}
	if state.FairRate > rate/8/500 || state.Updates != 1 {
		t.Fatalf("after the flood the fair rate is %d octet/s, %d intervals", state.FairRate, state.Updates)
	}
	state.IntervalStartNs, state.FinishNs, state.IntervalBytes = uint64(clock.Now()-1e9), 0, 0
	if err := p.objects.LimitStates.Put(uint32(Egress), &state); err != nil {
		t.Fatal(err)
	}
	send(t, p.objects.LimitEgress, frame)
	got, err := p.State(0, Egress)
	if err != nil || float64(got.FairRate) < 0.99*rate {
		t.Errorf("a second later the fair rate is %s (%v), want that of the limit", got.FairRate, err)
	}
}

// After a raise the virtual queue is as long as if its bytes had been sent at the higher rate; a
// lower rate leaves the queue as it is.
func TestARaiseShortensTheVirtualQueue(t *testing.T) {
	p := plane(t, 1)
	for i, c := range []struct {
		rate units.BitRate
		want time.Duration
	}{{1e6, time.Hour}, {20e6, time.Hour / 20}, {1e6, time.Hour / 20}} {
		if err := p.Set(0, Egress, Limit{Rate: c.rate}); err != nil {
			t.Fatal(err)
		}
		if i == 0 { // packets have filled the queue
			state := limitLimitState{FinishNs: clock.Now() + int64(time.Hour), FairRate: 1}
			if err := p.objects.LimitStates.Put(uint32(0), &state); err != nil {
				t.Fatal(err)
			}
		}
		state, err := p.State(0, Egress)
		if err != nil || state.Queue < c.want-10*time.Second || state.Queue > c.want {
			t.Errorf("at %v the queue is %v, want %v: %v", c.rate, state.Queue, c.want, err)
		}
	}
}
