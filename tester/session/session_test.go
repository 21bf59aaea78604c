// SPDX-License-Identifier: Apache-2.0

package session_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"weir/internal/fault"
	"weir/tester"
	"weir/tester/session"
)

func config(w *wire, streams ...tester.Stream) session.Config {
	return session.Config{Name: "simulated", Engine: w, Straggle: time.Millisecond, Directions: []session.Direction{{
		From: session.Port{Device: "a"}, To: session.Port{Device: "b"}, Schedule: tester.Schedule{Streams: streams, Duration: time.Second},
	}}}
}

func stream(id uint16, frames uint64) tester.Stream {
	return tester.Stream{ID: id, Stamped: true, Frames: frames, Gap: time.Millisecond}
}

func run(t *testing.T, c session.Config) session.Account {
	t.Helper()
	account, err := session.Run(context.Background(), c)
	if err != nil {
		t.Fatal(err)
	}
	return account
}

func TestLossIsWhatWasSentAndNeverArrived(t *testing.T) {
	w := &wire{path: func(stream uint16, sequence uint64) int {
		switch {
		case stream == 1 && sequence == 3: // in the middle: the receiver sees it
			return 0
		case stream == 1 && sequence >= 95: // at the end: only the sender sees it
			return 0
		case stream == 1 && sequence == 7:
			return 2
		}
		return 1
	}}
	a := run(t, config(w, stream(1, 100), stream(2, 50)))
	one, two := a.Streams[0], a.Streams[1]
	if one.Lost != 6 || one.TailLost != 5 || one.Received.Lost != 1 || one.Received.Duplicates != 1 || one.LossShare() != 0.06 {
		t.Errorf("stream 1: lost %d, at the tail %d, seen by the receiver %d, duplicates %d; want 6, 5, 1, 1", one.Lost, one.TailLost, one.Received.Lost, one.Received.Duplicates)
	}
	if two.Lost != 0 || two.Received.Received != 50 {
		t.Errorf("stream 2: %d lost of 50", two.Lost)
	}
	if a.Foreign != 2 || a.Clock != session.OneWay || w.closed != 1 {
		t.Errorf("foreign %d, delays %s, analyzer closed %d times", a.Foreign, a.Clock, w.closed)
	}
}

func TestADeadPathIsSaidAsSuchWithAHint(t *testing.T) {
	a := run(t, config(&wire{path: func(uint16, uint64) int { return 0 }}, stream(1, 100)))
	if !a.Streams[0].Unheard() || a.Streams[0].Lost != 100 {
		t.Errorf("stream of a dead path: %+v", a.Streams[0])
	}
	wantNote(t, a, "no frame of stream 1 arrived", "next hop", "GRO")
}

func TestARateThatTheMachineCannotSendIsNoLoss(t *testing.T) {
	s := stream(1, 200)
	s.Gap = 500 * time.Microsecond // 2000 frame/s; the wire sends 1000
	a := run(t, config(&wire{late: 3}, s))
	if a.Streams[0].Lost != 0 {
		t.Errorf("%d frames lost", a.Streams[0].Lost)
	}
	wantNote(t, a, "sent 1000 frame/s instead of the requested 2000")
	wantNote(t, a, "3 frames left late")
}

func TestClocks(t *testing.T) {
	c := config(&wire{}, stream(1, 5))
	c.Directions[0].From = session.Port{Name: "far away"}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	a, err := session.Run(ctx, c)
	if err != nil || a.Clock != session.Relative || a.Streams[0].Sent != nil {
		t.Errorf("receiver alone: %v, delays %s, sent %v", err, a.Clock, a.Streams[0].Sent)
	}
	wantNote(t, a, "relative to the smallest one")
	c.Clock = session.OneWay
	if a, err = session.Run(ctx, c); err != nil || a.Clock != session.OneWay || len(a.Notes) != 0 {
		t.Errorf("clocks declared synchronised: %v, delays %s, notes %v", err, a.Clock, a.Notes)
	}
}

func TestACancelledRunIsSettledAndSaysSo(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	a, err := session.Run(ctx, config(&wire{endless: true}, stream(1, 10)))
	if err != nil || !a.Stopped || a.Streams[0].Sent.Frames != 10 {
		t.Errorf("cancelled run: %v, stopped %v, %+v", err, a.Stopped, a.Streams[0])
	}
}

func TestImpossibleSchedulesAreRefused(t *testing.T) {
	for name, c := range map[string]session.Config{
		"nothing": {Engine: &wire{}},
		"to itself": {Engine: &wire{}, Directions: []session.Direction{{
			From: session.Port{Device: "a"}, To: session.Port{Device: "a"}, Schedule: tester.Schedule{Streams: []tester.Stream{stream(1, 1)}, Duration: time.Second}}}},
		"same id twice":  config(&wire{}, stream(1, 1), stream(1, 1)),
		"id too large":   config(&wire{}, stream(tester.MaxStreams, 1)),
		"without an end": {Engine: &wire{}, Directions: []session.Direction{{From: session.Port{Device: "a"}}}},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := session.Run(context.Background(), c); fault.Of(err) != fault.Usage || fault.Advice(err) == "" {
				t.Errorf("%s: %v is no usage error with advice", name, err)
			}
		})
	}
}

func TestCaptureKeepsTheFirstFrames(t *testing.T) {
	c := config(&wire{captured: make([]tester.CapturedFrame, 10)}, stream(1, 1))
	c.Capture = 4
	if a := run(t, c); len(a.Captured["b"]) != 4 {
		t.Errorf("%d frames kept, want 4", len(a.Captured["b"]))
	}
}

func wantNote(t *testing.T, a session.Account, words ...string) {
	t.Helper()
	for _, note := range a.Notes {
		all := true
		for _, word := range words {
			all = all && strings.Contains(note, word)
		}
		if all {
			return
		}
	}
	t.Errorf("no note says %q: %q", words, a.Notes)
}
