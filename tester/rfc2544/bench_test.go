// SPDX-License-Identifier: Apache-2.0

package rfc2544_test

import (
	"context"
	"math"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"weir/record/hist"
	"weir/tester"
	"weir/tester/rfc2544"
	"weir/tester/session"
)

// engine is a simulated tester: frames arrive at once, except those that lost selects.
type engine struct {
	mu        sync.Mutex
	began     time.Time
	schedules []tester.Schedule
	from      []string
	lost      func(stream tester.Stream, at time.Duration) bool // at: due time of the frame, from the start
	stopped   atomic.Int64                                      // after began; 0 is not
	instant   bool                                              // the schedule ends at once
	ending    time.Duration                                     // time that a sender takes to end
	closed    int
}

type sending struct {
	e        *engine
	schedule tester.Schedule
	stop     chan struct{}
	once     sync.Once
}

func (e *engine) Send(_ context.Context, from session.Port, schedule tester.Schedule) (session.Sender, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.began = time.Now()
	e.schedules, e.from = append(e.schedules, schedule), append(e.from, from.Device)
	s := &sending{e: e, schedule: schedule, stop: make(chan struct{})}
	if e.instant {
		s.Stop()
	}
	return s, nil
}

func (s *sending) Stop() {
	s.once.Do(func() {
		s.e.stopped.Store(int64(time.Since(s.e.began)))
		close(s.stop)
	})
}

func (s *sending) Wait() (tester.Generation, error) {
	<-s.stop
	time.Sleep(s.e.ending)
	return s.Progress(), nil
}

// due returns the number of frames of a stream sent by now.
func (e *engine) due(s tester.Stream, schedule tester.Schedule) uint64 {
	now := schedule.Duration
	if !e.instant {
		now = min(now, time.Since(e.began))
		if stopped := time.Duration(e.stopped.Load()); stopped > 0 {
			now = min(now, stopped)
		}
	}
	n := uint64(max(now-s.Start, 0) / s.Gap)
	if s.Frames > 0 {
		n = min(n, s.Frames)
	}
	return n
}

func (s *sending) Progress() tester.Generation {
	s.e.mu.Lock()
	defer s.e.mu.Unlock()
	g := tester.Generation{Mechanism: "simulated"}
	for _, stream := range s.schedule.Streams {
		n := s.e.due(stream, s.schedule)
		g.Sent = append(g.Sent, tester.Sent{Stream: stream.ID, Frames: n, First: stream.Start + 1, Last: stream.Start + 1 + time.Duration(max(n, 1)-1)*stream.Gap})
	}
	return g
}

type receiving struct {
	e    *engine
	port string
}

func (e *engine) Receive(to session.Port, _ session.Reception) (session.Receiver, error) {
	return &receiving{e, to.Device}, nil
}

func (r *receiving) Captured() ([]tester.CapturedFrame, error) { return nil, nil }

func (r *receiving) Close() error {
	r.e.closed++
	return nil
}

// Snapshot counts from the start each time, frame by frame. It knows the streams of both
// directions, as a kept analyzer may, and has seen none of this port's own.
func (r *receiving) Snapshot() (tester.Analysis, error) {
	r.e.mu.Lock()
	defer r.e.mu.Unlock()
	var a tester.Analysis
	for i, schedule := range r.e.schedules {
		for _, s := range schedule.Streams {
			if r.e.from[i] == r.port {
				a.Streams = append(a.Streams, tester.Counts{Stream: s.ID, Delay: &hist.Histogram{}})
				continue
			}
			a.Streams = append(a.Streams, r.e.count(s, r.e.due(s, schedule)))
		}
	}
	return a, nil
}

func (e *engine) count(s tester.Stream, n uint64) tester.Counts {
	c := tester.Counts{Stream: s.ID, Delay: &hist.Histogram{}}
	next := uint64(0)
	for sequence := range n {
		at := s.Start + time.Duration(sequence)*s.Gap + 1
		if e.lost != nil && e.lost(s, at) {
			continue
		}
		if sequence != next {
			c.LastError = &tester.SequenceError{Expected: next, Got: sequence | uint64(s.ID)<<session.SequenceBits, At: at}
			c.Lost += sequence - next
		}
		if c.Received == 0 {
			c.First = at
		}
		next = sequence + 1
		c.Received, c.Unique, c.Last, c.HighestSequence = c.Received+1, c.Unique+1, at, sequence
		c.Delay.Record(1000)
	}
	return c
}

func ports(e *engine) *rfc2544.Ports {
	return &rfc2544.Ports{A: session.Port{Device: "a"}, B: session.Port{Device: "b"}, Engine: e}
}

func TestTrialSendsWhatWasAskedAndReadsBothDirections(t *testing.T) {
	e := &engine{instant: true, lost: func(s tester.Stream, at time.Duration) bool { return s.ID == 1 && at < 10*time.Millisecond }}
	p := ports(e)
	p.Bidirectional = true
	o, err := p.Trial(context.Background(), rfc2544.Trial{Size: 128, Rate: 1000, Duration: time.Second, Batch: 1}, time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	if len(o.Directions) != 2 || o.Directions[0].Lost() != 0 || o.Directions[1].Lost() != 10 || o.Sent() != 2000 {
		t.Errorf("outcome %+v", o)
	}
	if got := o.Directions[0].Offered; math.Abs(got-1000) > 1 {
		t.Errorf("offered %.1f frame/s, want 1000", got)
	}
	s := e.schedules[1]
	if e.from[1] != "b" || s.Batch != 1 || s.Policy != tester.Skip || s.Streams[0].Sizes[0].Size != 128 || s.Streams[0].Gap != time.Millisecond {
		t.Errorf("reverse schedule from %s: %+v", e.from[1], s)
	}
	if e.closed != 2 {
		t.Errorf("%d analyzers closed, want 2", e.closed)
	}
}

func TestALateGeneratorSkipsAtARateAndCatchesUpInABurst(t *testing.T) {
	for _, test := range []struct {
		trial rfc2544.Trial
		want  tester.Policy
	}{
		{rfc2544.Trial{Size: 64, Rate: 1e6, Duration: time.Millisecond}, tester.Skip},
		{rfc2544.Trial{Size: 64, Rate: 1e6, Duration: time.Millisecond, Frames: 100}, tester.CatchUp},
		{rfc2544.Trial{Size: 64, Rate: 1e6, Duration: time.Millisecond, Then: &rfc2544.Step{Rate: 1e5, Duration: time.Millisecond}}, tester.CatchUp},
	} {
		e := &engine{instant: true}
		if _, err := ports(e).Trial(context.Background(), test.trial, time.Millisecond); err != nil {
			t.Fatal(err)
		}
		s := e.schedules[0]
		if s.Policy != test.want || (s.Policy == tester.Skip) != (s.Tolerance == 100*time.Microsecond) {
			t.Errorf("%+v: policy %s with a tolerance of %s, want %s", test.trial, s.Policy, s.Tolerance, test.want)
		}
	}
}

func TestTrialsDoNotShareStreamIdentifiers(t *testing.T) {
	e := &engine{instant: true}
	p := ports(e)
	for range 3 {
		if _, err := p.Trial(context.Background(), rfc2544.Trial{Size: 64, Rate: 1000, Duration: 10 * time.Millisecond}, time.Millisecond); err != nil {
			t.Fatal(err)
		}
	}
	seen := map[uint16]bool{}
	for _, s := range e.schedules {
		if seen[s.Streams[0].ID] {
			t.Errorf("identifier %d was used twice in a row", s.Streams[0].ID)
		}
		seen[s.Streams[0].ID] = true
	}
}

func TestRecoveryIsTheTimeOfTheLastLossAfterTheChange(t *testing.T) {
	e := &engine{instant: true, lost: func(_ tester.Stream, at time.Duration) bool {
		return at > 50*time.Millisecond && at < 130*time.Millisecond // overload until 100 ms
	}}
	o, err := ports(e).Trial(context.Background(), rfc2544.Trial{
		Size: 64, Rate: 2000, Duration: 100 * time.Millisecond, Then: &rfc2544.Step{Rate: 1000, Duration: 100 * time.Millisecond},
	}, time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	if got := o.Directions[0].LastLoss; got != 29*time.Millisecond {
		t.Errorf("last loss %s after the change, want 29ms", got)
	}
}

func TestSilenceIsFromTheLastFrameBeforeToTheFirstAfter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const silent, gap = 200 * time.Millisecond, time.Millisecond
		got, err := silence(&engine{}, silent)
		if err != nil {
			t.Fatal(err)
		}
		if got < silent || got > silent+2*gap {
			t.Errorf("silence of %s, want %s and a gap of %s", got, silent, gap)
		}
	})
}

// A slow end of the session must not lengthen the measured silence.
func TestSilenceDoesNotGrowWhileTheSessionEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		if _, err := silence(&engine{ending: time.Second}, 200*time.Millisecond); err != nil {
			t.Error(err)
		}
	})
}

// silence has a device lose all frames for a while after the trigger.
func silence(e *engine, silent time.Duration) (time.Duration, error) {
	var from time.Duration
	e.lost = func(_ tester.Stream, at time.Duration) bool { return from > 0 && at >= from && at < from+silent }
	return ports(e).Silence(context.Background(), rfc2544.Trial{Size: 64, Rate: 1000, Duration: time.Minute}, func(context.Context) error {
		e.mu.Lock()
		defer e.mu.Unlock()
		from = time.Since(e.began)
		return nil
	})
}
