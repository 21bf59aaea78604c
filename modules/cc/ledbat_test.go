// SPDX-License-Identifier: Apache-2.0

package cc

import (
	"fmt"
	"math"
	"net"
	"slices"
	"testing"
	"time"

	"weir/internal/units"
	"weir/kernel/tc"
	"weir/kernel/testutil"
)

const mbit units.BitRate = 1_000_000

// throttle gives the client's device a rate and a drop-tail queue.
func (p *path) throttle(t *testing.T, rate units.BitRate, packets uint32) {
	t.Helper()
	conn, err := tc.Open(p.client)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	root, class := tc.MakeHandle(1, 0), tc.MakeHandle(1, 1)
	for _, step := range []func() error{
		func() error { return conn.AddHTB("eth0", tc.Place{Handle: root}, 1) },
		func() error { return conn.AddHTBClass("eth0", root, class, tc.HTBClass{Rate: rate}) },
		func() error {
			return conn.AddPfifo("eth0", tc.Place{Parent: class, Handle: tc.MakeHandle(2, 0)}, packets)
		},
	} {
		if err := step(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestLEDBATFollowsItsDraft transfers data through a queue until the control has passed all its
// phases, and checks every step against the draft's equations.
func TestLEDBATFollowsItsDraft(t *testing.T) {
	draft := ledbatModel{target: 60 * time.Millisecond}
	quick := ledbatModel{target: scavengerTarget, explore: true, tolerant: true}
	const least, most = 4, 64 // transfers: an emulated CPU may be too slow to fill the queue at first
	for _, test := range []struct {
		name    string
		model   ledbatModel
		rate    units.BitRate
		packets uint32
		phases  []Phase
	}{
		{"ledbat", draft, 6 * mbit, 200, []Phase{SlowStart, Avoidance, Drain}},
		{"ledbat", draft, 6 * mbit, 10, []Phase{SlowStart, Avoidance, Drain}}, // queue too short for its target
		{"scavenger", quick, 6 * mbit, 200, []Phase{SlowStart, Avoidance, Drain, Climb}},
		{"scavenger", quick, 2 * mbit, 200, []Phase{SlowStart, Avoidance, Drain, Climb}},
		{"scavenger", quick, 6 * mbit, 4, []Phase{SlowStart, Avoidance, Drain, Climb}}, // continuous losses
	} {
		t.Run(fmt.Sprintf("%s %s %d", test.name, test.rate, test.packets), func(t *testing.T) {
			control := installAs(t, test.name, Options{Trace: true})
			trace, err := Follow[LEDBATEvent](control)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = trace.Close() }()
			p := newPath(t)
			p.throttle(t, test.rate, test.packets)
			sender, receiver := p.connect(t, control.Name(), control.Name())
			random := testutil.Rand(t)
			var steps []LEDBATEvent
			never := test.phases
			for n := range most {
				transfer(t, random, sender, receiver, 256<<10)
				steps = append(steps, ledbatEvents(t, trace, sender)...)
				if never = unseen(test.phases, steps); len(never) == 0 && n+1 >= least {
					break
				}
			}
			checkLEDBAT(t, test.model, steps)
			t.Logf("%d steps", len(steps))
			if len(never) > 0 {
				t.Errorf("phases %v were never entered in %d steps", never, len(steps))
			}
		})
	}
}

// unseen lists the phases without a step.
func unseen(phases []Phase, steps []LEDBATEvent) []Phase {
	return slices.DeleteFunc(slices.Clone(phases), func(phase Phase) bool {
		return slices.ContainsFunc(steps, func(step LEDBATEvent) bool { return step.Phase == phase })
	})
}

// ledbatEvents returns a connection's LEDBAT++ trace.
func ledbatEvents(t *testing.T, trace *Trace[LEDBATEvent], conn net.Conn) []LEDBATEvent {
	t.Helper()
	return eventsOf(t, trace, conn, func(e LEDBATEvent) (uint16, Kind) { return e.LocalPort, e.Kind })
}

// grain is the maximum rounding error of a step: each of three divisions cuts off less than one
// part in 65536.
const grain = 4.0 / 65536

// checkLEDBAT runs the model beside the control's steps.
func checkLEDBAT(t *testing.T, m ledbatModel, steps []LEDBATEvent) {
	t.Helper()
	if len(steps) == 0 || steps[0].Kind != Start {
		t.Fatal("the trace does not begin with the start of the connection")
	}
	before := steps[0]
	reduced := 0.0   // the window before the last reduction
	var saved uint32 // the window before the slowdown
	// The start of a slowdown, the time until the next, and its reference.
	var began, rest, rested time.Duration
	held := 0 // segments to be delivered until delay changes the window again
	for i, step := range steps[1:] {
		fail := func(format string, values ...any) {
			t.Helper()
			t.Fatalf("step %d: %s\nbefore %+v\nafter  %+v", i+1, fmt.Sprintf(format, values...), before, step)
		}
		held -= int(step.Acked)
		near := func(want float64) bool { return math.Abs(step.Window-want) <= grain }
		switch {
		case step.Kind == Undo:
			want := math.Max(math.Floor(step.Window), math.Floor(reduced))
			if step.Phase == Drain {
				want = minWindow
				saved = max(saved, uint32(reduced))
			}
			if float64(step.Threshold) != want {
				fail("a reduction from %v is taken back to %d", reduced, step.Threshold)
			}
			step.Window += want - math.Floor(step.Window)
		case step.Kind == Reduce:
			reduced = before.Window
			rising := before.Phase == SlowStart || before.Phase == Climb
			allowed := m.afterLoss(before.Window, step, rising)
			if step.Phase == Avoidance && !near(before.Window) {
				held = m.holds(step)
			}
			if before.Phase == Drain {
				allowed = []float64{before.Window}
				saved = max(minWindow, saved/2)
			}
			if !slices.ContainsFunc(allowed, near) {
				fail("loss leaves %v, want one of %v", step.Window, allowed)
			}
		case step.Acked == 0 || before.Threshold != step.Threshold && before.Window > step.Window+float64(step.Acked) && step.Phase == Climb:
			// nothing was delivered, or the kernel restarted after a timeout
		case before.Phase == SlowStart && step.Phase == SlowStart:
			if want := m.slowStart(before.Window, step, saved); !near(want) || m.ends(step.Delay) {
				fail("slow start makes %v, want %v", step.Window, want)
			}
		case before.Phase == SlowStart && step.Phase == Avoidance:
			if want := m.settled(before.Window, step); !m.ends(step.Delay) || !nearSegment(step.Window, want) {
				fail("slow start ended at %v, want a window of %v", step.Delay, want)
			}
			held = m.holds(step)
		case before.Phase == Avoidance && step.Phase == Avoidance:
			want := m.avoidance(before.Window, step)
			if held > 0 {
				want = before.Window
			}
			if !near(want) {
				fail("congestion avoidance makes %v, want %v, %d held", step.Window, want, held)
			}
		case before.Phase == Avoidance && step.Phase == Drain:
			if step.Window != minWindow || step.Threshold != uint32(before.Window) {
				fail("a slowdown begins with a window of %v and a threshold of %d", step.Window, step.Threshold)
			}
			if rest > 0 && step.Time-rested < rest-time.Millisecond {
				fail("the slowdown begins %v after the one before, want %v", step.Time-rested, rest)
			}
			began, saved = step.Time, uint32(before.Window)
		case before.Phase == Drain && step.Phase == Drain:
			if step.Window != minWindow {
				fail("the window moves in a slowdown")
			}
		case before.Phase == Drain && step.Phase == Climb:
			if step.Time-began < 2*m.minRTT(steps[:i+2])-time.Millisecond {
				fail("the slowdown took %v", step.Time-began)
			}
		case before.Phase == Climb && step.Phase == Climb:
			if want := m.slowStart(before.Window, step, saved); !near(want) || m.climbed(before.Window, saved, step.Delay) && began > 0 {
				fail("the climb to %d makes %v, want %v", saved, step.Window, want)
			}
		case before.Phase == Climb && step.Phase == Avoidance:
			if !m.climbed(before.Window, saved, step.Delay) && !m.ends(step.Delay) && began > 0 {
				fail("the climb to %d ended at %v", saved, step.Window)
			}
			if want := m.settled(before.Window, step); !nearSegment(step.Window, want) {
				fail("the climb ends with %v, want %v", step.Window, want)
			}
			held = m.holds(step)
			rested, rest = step.Time, slowdownRest*(step.Time-began)
		default:
			fail("phase %d follows phase %d", step.Phase, before.Phase)
		}
		before = step
	}
}

// nearSegment compares windows in whole segments, which rounding may shift by one.
func nearSegment(got, want float64) bool { return math.Abs(got-want) <= 1 }

// minRTT returns the smallest smoothed RTT of the steps.
func (ledbatModel) minRTT(steps []LEDBATEvent) time.Duration {
	return slices.MinFunc(steps, func(a, b LEDBATEvent) int { return int(a.RTT - b.RTT) }).RTT
}
