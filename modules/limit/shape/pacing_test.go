// SPDX-License-Identifier: Apache-2.0

package shape

import (
	"math"
	"net/netip"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"weir/core/match"
	"weir/internal/direction"
	"weir/kernel/clock"
)

// The count of four paced flows moves half of the way to the count that fills the rate, more slowly
// with longer waits. While packets wait, it is at least the number of senders. The pace is the fair
// share less a sixteenth.
func TestPacedFlowsAreCountedByTheirUsage(t *testing.T) {
	const before, spare = 4, 1 + 1.0/256
	for _, test := range []struct {
		name       string
		used, wait time.Duration // of an interval of an hour
		senders    uint32
		want       float64
	}{
		{"all that is aimed at", time.Hour * 256 / 257, 0, 0, before},
		{"half", time.Hour / 2, 0, 0, before + (before*spare/2-before)/2},
		{"twice as much", 2 * time.Hour, 0, 0, before + (2*before*spare-before)/2},
		{"all, and wait", time.Hour, time.Hour, 0, before + (before*spare*(1+59.0/60/4)-before)/4},
		{"all, and wait for less than half a mark", time.Hour * 256 / 257, 59 * time.Second, 9, before},
		{"all, and many wait", time.Hour, time.Hour, 9, 9},
		{"many do not wait", time.Hour, 0, 9, before + before*(spare-1)/2},
		{"hardly anything, one after another", time.Minute, 0, 0, before + (before*spare/60-before)/2},
	} {
		t.Run(test.name, func(t *testing.T) {
			b, l := newBench(t), long(1, 0)
			l.Mark = 2 * time.Minute
			b.assign(match.Assignments{match.OfPrefix(netip.MustParsePrefix("10.9.0.2/32")): 3})
			b.set(3, l)
			whole := uint32(l.Rate / 8 * 15 / 16)
			state := shapeShaperState{IntervalStartNs: uint64(clock.Now()) - uint64(time.Hour), ShareNs: uint64(time.Hour) / before, PacedNs: uint64(test.used),
				FairRate: whole / before, WaitUs: uint32(test.wait >> 10), Senders: test.senders}
			key := keyOf(3, direction.Egress)
			if err := b.p.maps.DelayStates.Put(key, &state); err != nil {
				t.Fatal(err)
			}
			if _, passes := b.charge(datagram(one4, to4, 100)); !passes {
				t.Fatal("dropped")
			}
			if err := b.p.maps.DelayStates.Lookup(key, &state); err != nil {
				t.Fatal(err)
			}
			flows := float64(state.Flows) / (1 << shapeShaperFormatSHAPER_FLOWS_SHIFT)
			if math.Abs(flows-test.want) > test.want/100 {
				t.Errorf("counted %.3f flows, want %.3f", flows, test.want)
			}
			if pace := float64(whole) / test.want; math.Abs(float64(state.FairRate)-pace) > pace/50 {
				t.Errorf("paced at %d bytes/s, want %.0f", state.FairRate, pace)
			}
		})
	}
}

// A flow with a local TCP receiver counts as paced until two intervals have passed without a
// packet.
func TestThrottledFlowsAreCountedByTheirUsage(t *testing.T) {
	b, l := newBench(t), long(1, 0)
	config := l.config(Fq)
	config.Flags |= shapeShaperFlagsSHAPER_RECEIVED
	if err := b.p.set(loopback, config); err != nil {
		t.Fatal(err)
	}
	used := func() (paced, others bool) {
		t.Helper()
		state := shapeShaperState{IntervalStartNs: uint64(clock.Now()), ShareNs: uint64(time.Hour)}
		if err := b.p.maps.DelayStates.Put(uint32(loopback), &state); err != nil {
			t.Fatal(err)
		}
		if _, passes := b.charge(segment(unix.IPPROTO_TCP, 100)); !passes {
			t.Fatal("dropped")
		}
		if err := b.p.maps.DelayStates.Lookup(uint32(loopback), &state); err != nil {
			t.Fatal(err)
		}
		return state.PacedNs > 0, state.UsedNs > 0
	}
	if paced, others := used(); paced || !others {
		t.Errorf("before it came: paced %t, others %t", paced, others)
	}
	b.flows(shapeShaperFlow{UsedNs: math.MaxUint32})
	for i, want := range []bool{true, true, false} {
		if paced, others := used(); paced != want || others == want {
			t.Errorf("%d intervals behind: paced %t, others %t", i, paced, others)
		}
	}
}

// A flow throttled since the middle of an interval gets at least a quarter of the rate.
func TestASingleThrottledFlowGetsAtLeastAQuarter(t *testing.T) {
	b, l := newBench(t), long(1, 0)
	config := l.config(Fq)
	config.Flags |= shapeShaperFlagsSHAPER_RECEIVED
	if err := b.p.set(loopback, config); err != nil {
		t.Fatal(err)
	}
	whole := uint32(l.Rate / 8 * 15 / 16)
	for _, waited := range []time.Duration{0, time.Hour} {
		state := shapeShaperState{IntervalStartNs: uint64(clock.Now()) - uint64(time.Hour), ShareNs: uint64(time.Hour), PacedNs: uint64(2 * time.Hour),
			FairRate: whole, WaitUs: uint32(waited >> 10)}
		if err := b.p.maps.DelayStates.Put(uint32(loopback), &state); err != nil {
			t.Fatal(err)
		}
		if _, passes := b.charge(datagram(one4, to4, 100)); !passes {
			t.Fatal("dropped")
		}
		if err := b.p.maps.DelayStates.Lookup(uint32(loopback), &state); err != nil {
			t.Fatal(err)
		}
		if state.FairRate < whole/4 || state.FairRate > whole {
			t.Errorf("after a wait of %s the fair rate is %d of %d bytes/s", waited, state.FairRate, whole)
		}
	}
}

// A flow stays in order when its receiver becomes local, although the slots of paced flows are
// empty.
func TestAThrottledFlowKeepsItsOrder(t *testing.T) {
	b, l := newBench(t), long(1, 0)
	config := l.config(Fq)
	config.Flags |= shapeShaperFlagsSHAPER_RECEIVED
	if err := b.p.set(loopback, config); err != nil {
		t.Fatal(err)
	}
	const taken = 20 * time.Minute
	state := shapeShaperState{FinishNs: clock.Now() + int64(time.Hour), IntervalStartNs: uint64(clock.Now()) + 1e15, ShareNs: 1 << 60, Flows: 2 << shapeShaperFormatSHAPER_FLOWS_SHIFT}
	for i := range state.AheadNs[0] {
		state.AheadNs[0][i] = clock.Now() + int64(taken)
	}
	if err := b.p.maps.DelayStates.Put(uint32(loopback), &state); err != nil {
		t.Fatal(err)
	}
	first, passes := b.charge(segment(unix.IPPROTO_TCP, 1000))
	if !passes || first < taken-time.Minute {
		t.Fatalf("passes %t with %v", passes, first)
	}
	at := clock.Now() + int64(first)
	for i := range b.p.maps.DelayFlows.MaxEntries() {
		var flow shapeShaperFlow
		if err := b.p.maps.DelayFlows.Lookup(i, &flow); err != nil {
			t.Fatal(err)
		}
		flow.UsedNs = math.MaxUint32
		if err := b.p.maps.DelayFlows.Put(i, &flow); err != nil {
			t.Fatal(err)
		}
	}
	for range 3 {
		after, passes := b.charge(segment(unix.IPPROTO_TCP, 1000))
		if next := clock.Now() + int64(after); !passes || next < at-int64(time.Second) {
			t.Fatalf("passes %t and departs %v before the one ahead of it", passes, time.Duration(at-next))
		} else {
			at = next
		}
	}
}
