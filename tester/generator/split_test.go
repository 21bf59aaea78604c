// SPDX-License-Identifier: Apache-2.0

package generator

import (
	"errors"
	"runtime"
	"testing"
	"time"

	"weir/kernel/testutil"
	"weir/tester"
	"weir/tester/frame"
)

func TestDivideKeepsStreamsWholeAndSpreadsTheirRate(t *testing.T) {
	schedule := tester.Schedule{Duration: time.Second}
	for id := range uint16(9) {
		s := stream(id, 64)
		s.Gap = time.Microsecond
		schedule.Streams = append(schedule.Streams, s)
	}
	of := func(change func(*tester.Schedule), cpus ...int) []tester.Schedule {
		changed := schedule
		change(&changed)
		plan, err := frame.Plan(changed)
		if err != nil {
			t.Fatal(err)
		}
		return divide(Port{CPUs: cpus}, changed, plan)
	}
	same := func(*tester.Schedule) {}
	parts := of(same, 3, 4, 5)
	seen := map[uint16]int{}
	for _, p := range parts {
		if len(p.Streams) != 3 || p.Duration != time.Second {
			t.Errorf("a part of %d streams for %s", len(p.Streams), p.Duration)
		}
		for _, s := range p.Streams {
			seen[s.ID]++
		}
	}
	if len(parts) != 3 || len(seen) != 9 {
		t.Errorf("%d parts with %d streams", len(parts), len(seen))
	}
	for name, change := range map[string]func(*tester.Schedule){
		"a limit for all together": func(s *tester.Schedule) { s.MaxFrames = 100 },
		"one stream":               func(s *tester.Schedule) { s.Streams = s.Streams[:1] },
	} {
		t.Run(name, func(t *testing.T) {
			if got := of(change, 0, 1); got != nil {
				t.Errorf("%s: %d parts", name, len(got))
			}
		})
	}
	if got := of(same, 0); got != nil {
		t.Errorf("one CPU: %d parts", len(got))
	}
}

// TestPartsSendTogetherWhatOneWould sends frame counts from two CPUs and expects every frame.
func TestPartsSendTogetherWhatOneWould(t *testing.T) {
	testutil.NeedRoot(t)
	testutil.Need(t, "live-frames", LiveFrames())
	if runtime.NumCPU() < 2 {
		testutil.Need(t, "cpu-affinity", errors.New("one CPU alone"))
	}
	r := newQueues(t)
	schedule := tester.Schedule{Duration: 30 * time.Second}
	const frames = 5000
	for id := range uint16(6) {
		s := stream(id, 64)
		s.Frames = frames
		schedule.Streams = append(schedule.Streams, s)
	}
	a := r.analyze(t, schedule)
	port := r.port
	port.CPUs = []int{0, 1}
	running, err := StartWith(t.Context(), port, schedule, Live)
	if err != nil {
		t.Fatal(err)
	}
	g, err := running.Wait()
	if err != nil {
		t.Fatal(err)
	}
	if g.Mechanism != Live+" on 2 CPUs" || g.Ended != "schedule" || len(g.Sent) != 6 {
		t.Errorf("%s, ended by %s, %d streams", g.Mechanism, g.Ended, len(g.Sent))
	}
	for i, s := range g.Sent {
		if s.Stream != uint16(i) || s.Frames != frames {
			t.Errorf("stream %d sent %d frames", s.Stream, s.Frames)
		}
	}
	testutil.Eventually(t, 10*time.Second, "arrival of all frames", func() bool {
		analysis, err := a.Snapshot()
		if err != nil {
			t.Fatal(err)
		}
		unique := g.Refused
		for _, c := range analysis.Streams {
			unique += c.Unique
		}
		return unique == 6*frames
	})
}
