// SPDX-License-Identifier: Apache-2.0

package session_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"weir/internal/fault"
	"weir/record/hist"
	"weir/tester"
	"weir/tester/session"
)

// scripted is an engine with an analyzer that returns a test's counts.
type scripted struct {
	wire
	counts []tester.Counts
}

func (e *scripted) Receive(session.Port, session.Reception) (session.Receiver, error) { return e, nil }

func (e *scripted) Snapshot() (tester.Analysis, error) {
	return tester.Analysis{Streams: e.counts}, nil
}

func toldConfig(counts tester.Counts) session.Config {
	c := config(nil, stream(1, 100))
	counts.Stream = 1
	c.Engine = &scripted{counts: []tester.Counts{counts}}
	return c
}

func TestWhatCameTooLateHidesNoLoss(t *testing.T) {
	a := run(t, toldConfig(tester.Counts{Received: 100, Unique: 90, OutOfWindow: 10, HighestSequence: 99}))
	if a.Streams[0].Lost != 10 {
		t.Errorf("%d lost; ten copies from behind the window hide ten lost frames", a.Streams[0].Lost)
	}
	wantNote(t, a, "10 frames of stream 1 arrived more than 8128 numbers late")
}

func TestOnlyTheFramesSinceTheLastStartCount(t *testing.T) {
	a := run(t, toldConfig(tester.Counts{Received: 130, Unique: 130, Earlier: 40, Restarts: 1, HighestSequence: 99}))
	if a.Streams[0].Lost != 10 || a.Check() != nil {
		t.Errorf("%d lost, %v; want the 10 since the sender began again", a.Streams[0].Lost, a.Check())
	}
	wantNote(t, a, "the sender of stream 1 restarted")
	a = run(t, toldConfig(tester.Counts{Received: 130, Unique: 130, Earlier: 129, Restarts: 60, HighestSequence: 99}))
	if err := a.Check(); fault.Of(err) != fault.Failed || !strings.Contains(fault.Advice(err), "--id") {
		t.Errorf("two senders of one identifier: %v", err)
	}
}

func TestNothingReceivedIsAnError(t *testing.T) {
	c := toldConfig(tester.Counts{})
	c.Directions[0].From, c.Listen = session.Port{Name: "far away"}, time.Millisecond
	if err := run(t, c).Check(); fault.Of(err) != fault.Failed {
		t.Errorf("a receiver that received nothing: %v", err)
	}
}

func delays(base int64, values ...uint64) tester.Counts {
	h := &hist.Histogram{}
	for _, v := range values {
		h.Record(v)
	}
	n := uint64(len(values))
	return tester.Counts{Received: n, Unique: n, HighestSequence: n - 1, Delay: h, DelayBase: base, DelayMin: h.Min(), DelayMax: h.Max(), DelaySum: h.Sum()}
}

func TestClocksThatAreDeclaredSynchronised(t *testing.T) {
	for _, test := range []struct {
		base int64
		want session.Clock
		min  uint64
	}{{5000, session.OneWay, 5000}, {-3_000_000, session.Relative, 0}} {
		c := toldConfig(delays(test.base, 0, 100, 200))
		c.Directions[0].From, c.Listen, c.Clock = session.Port{Name: "far away"}, time.Millisecond, session.OneWay
		a, err := session.Run(context.Background(), c)
		if err != nil {
			t.Fatal(err)
		}
		got := a.Streams[0].Received
		if a.Clock != test.want || got.DelayMin != test.min || got.DelayMax != test.min+200 || got.DelaySum != 3*test.min+300 || got.Delay.Min() != test.min {
			t.Errorf("base %d: %s, delays from %d to %d, sum %d", test.base, a.Clock, got.DelayMin, got.DelayMax, got.DelaySum)
		}
		if test.want == session.Relative {
			wantNote(t, a, "declared synchronised", "3ms before they were sent")
		}
	}
}
