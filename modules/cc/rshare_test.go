// SPDX-License-Identifier: Apache-2.0

package cc

import (
	"math"
	"testing"
	"time"

	"weir/modules/cc/internal/steps"
)

// shortRoute and longRoute are the RTTs in us before and after a change of the route.
const shortRoute, longRoute = 10_000, 30_000

// TestThePathForgetsAShorterRoute changes the route of connections that share a path. After ten
// minutes of history, and a rotation of each connection, the longer RTT is no delay.
func TestThePathForgetsAShorterRoute(t *testing.T) {
	made := newSteps(t)
	for name, starts := range map[string][]time.Duration{"one": {0}, "two": {0, 30 * time.Second}} {
		t.Run(name, func(t *testing.T) {
			shared := steps.NewShared(0)
			var connections []*stepper
			for now := time.Duration(0); now < 14*time.Minute; now += 3 * time.Second {
				if n := len(connections); n < len(starts) && now >= starts[n] {
					s := newStepperOf(made, "scavenger")
					s.shared = shared
					connections = append(connections, s)
				}
				rtt := uint32(shortRoute)
				if now >= time.Minute {
					rtt = longRoute
				}
				for i, s := range connections {
					// Not in one tick: each rotates its minutes by itself.
					ack := steps.Ack{Now: uint32(now/tick) + uint32(i), Next: s.state.Next + simulatedSegment, Mss: simulatedSegment, Rtt: rtt}
					ack.Edge = ack.Next
					if step := s.step(t, ack); now >= 13*time.Minute && step.Delay != 0 {
						t.Fatalf("connection %d has a delay of %d us at %v, want 0", i, step.Delay, now)
					}
				}
			}
		})
	}
}

// TestTicksOfAnotherCPU makes a step one tick before another CPU's rotation.
func TestTicksOfAnotherCPU(t *testing.T) {
	const now = 1_000_000
	s := newStepperOf(newSteps(t), "scavenger")
	s.shared = steps.NewShared(now)
	s.step(t, steps.Ack{Now: now, Next: simulatedSegment, Mss: simulatedSegment})
	s.shared.Path.Delays.Base[0] = shortRoute
	s.shared.Path.Active = steps.Sharing{Began: now, Number: 7, In: 16, Before: 16}
	s.step(t, steps.Ack{Now: now - 1, Next: 2 * simulatedSegment, Mss: simulatedSegment, Rtt: longRoute})
	if path := s.shared.Path; path.Active.In != 17 || path.Active.Before != 16 || path.Delays.Base[0] != shortRoute || path.Delays.Base[1] != math.MaxUint32 {
		t.Errorf("the path rotated: %+v", path)
	}
	if s.state.Delays.Base[0] != shortRoute {
		t.Errorf("the connection rotated: %+v", s.state.Delays)
	}
}

// TestAnEmptyPathIsNoFreePath steps a small connection on a path that the LRU map has evicted.
func TestAnEmptyPathIsNoFreePath(t *testing.T) {
	s := newStepperOf(newSteps(t), "scavenger")
	s.shared = steps.NewShared(0)
	s.step(t, steps.Ack{Next: simulatedSegment, Mss: simulatedSegment})
	s.state.Phase, s.state.Until = uint8(Avoidance), 1_000_000
	s.state.Window = 2 * simulatedSegment << 16
	s.state.Delays.Base[0] = shortRoute
	for i := range s.state.Delays.Recent {
		s.state.Delays.Recent[i] = longRoute
	}
	step := s.step(t, steps.Ack{Now: 10, Next: 2 * simulatedSegment, Mss: simulatedSegment})
	if Phase(step.State.Phase) != Avoidance || step.Delay != longRoute-shortRoute {
		t.Errorf("phase %d with a delay of %d us, want avoidance with %d", step.State.Phase, step.Delay, longRoute-shortRoute)
	}
}

// TestTheFirstSlowdownIsCommon slows the path of a connection without slowdowns, at both halves of
// the clock's range.
func TestTheFirstSlowdownIsCommon(t *testing.T) {
	made := newSteps(t)
	for _, now := range []uint32{1000, 1<<31 + 1000} {
		s := newStepperOf(made, "scavenger")
		s.shared = steps.NewShared(now)
		s.step(t, steps.Ack{Now: now, Next: simulatedSegment, Mss: simulatedSegment})
		s.state.Phase, s.state.Until, s.state.Srtt = uint8(Avoidance), now+1_000_000, longRoute
		s.shared.Path.Slowed = now + 20
		step := s.step(t, steps.Ack{Now: now + 21, Next: 2 * simulatedSegment, Mss: simulatedSegment, Rtt: longRoute})
		if Phase(step.State.Phase) != Drain {
			t.Errorf("phase %d at tick %d, want a slowdown", step.State.Phase, now)
		}
	}
}

// TestConnectionsThatLeftDoNotCount steps a connection long after sixteen others.
func TestConnectionsThatLeftDoNotCount(t *testing.T) {
	const now, later = 1_000_000, 1_000_000 + 20*61_036 // ticks: 20 s
	s := newStepperOf(newSteps(t), "scavenger")
	s.shared = steps.NewShared(now)
	s.shared.Sharing = steps.Sharing{Began: now, Number: 7, In: 16, Before: 16}
	s.step(t, steps.Ack{Now: now, Next: simulatedSegment, Mss: simulatedSegment})
	for at, want := range map[uint32]uint32{now - 1: 16, now + 1: 16, later: 1} {
		if step := s.step(t, steps.Ack{Now: at, Next: simulatedSegment, Mss: simulatedSegment}); step.Ack.Sharing != want {
			t.Errorf("at tick %d %d connections share the window, want %d", at, step.Ack.Sharing, want)
		}
	}
}
