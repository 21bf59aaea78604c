// SPDX-License-Identifier: Apache-2.0

package session_test

import (
	"context"
	"sync"
	"time"

	"weir/tester"
	"weir/tester/session"
)

// wire is a simulated engine: sent frames arrive at the receiver, except those that path removes.
type wire struct {
	mu       sync.Mutex
	counts   map[uint16]*tester.Counts
	path     func(stream uint16, sequence uint64) (copies int)
	late     uint64
	sent     uint64 // frames per stream; 0 is by the schedule
	endless  bool   // sends until stopped
	closed   int
	captured []tester.CapturedFrame
}

type sender struct {
	generation tester.Generation
	done       chan struct{}
	once       sync.Once
}

func (s *sender) Progress() tester.Generation { return s.generation }
func (s *sender) Stop()                       { s.once.Do(func() { close(s.done) }) }
func (s *sender) Wait() (tester.Generation, error) {
	<-s.done
	return s.generation, nil
}

func (w *wire) Send(_ context.Context, _ session.Port, schedule tester.Schedule) (session.Sender, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	s := &sender{generation: tester.Generation{Mechanism: "simulated", Ended: "schedule"}, done: make(chan struct{})}
	for _, stream := range schedule.Streams {
		n := stream.Frames
		if w.sent > 0 {
			n = w.sent
		}
		s.generation.Sent = append(s.generation.Sent, tester.Sent{Stream: stream.ID, Frames: n, Late: w.late, First: time.Second, Last: time.Second + time.Duration(n-1)*time.Millisecond})
		for sequence := range n {
			w.arrive(stream.ID, sequence)
		}
	}
	if !w.endless {
		s.Stop()
	}
	return s, nil
}

// arrive counts like an analyzer, for a path that keeps the order.
func (w *wire) arrive(stream uint16, sequence uint64) {
	copies := 1
	if w.path != nil {
		copies = w.path(stream, sequence)
	}
	if copies == 0 {
		return
	}
	if w.counts == nil {
		w.counts = map[uint16]*tester.Counts{}
	}
	c := w.counts[stream]
	if c == nil {
		c = &tester.Counts{Stream: stream}
		w.counts[stream] = c
	}
	c.Received += uint64(copies)
	c.Unique++
	c.Duplicates += uint64(copies - 1)
	c.HighestSequence = sequence
	c.Lost = sequence + 1 - c.Unique
}

func (w *wire) Receive(session.Port, session.Reception) (session.Receiver, error) { return w, nil }

func (w *wire) Snapshot() (tester.Analysis, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	a := tester.Analysis{Foreign: 2}
	for _, c := range w.counts {
		a.Streams = append(a.Streams, *c)
	}
	return a, nil
}

func (w *wire) Captured() ([]tester.CapturedFrame, error) { return w.captured, nil }

func (w *wire) Close() error {
	w.closed++
	return nil
}
