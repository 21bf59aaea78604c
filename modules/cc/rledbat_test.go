// SPDX-License-Identifier: Apache-2.0

package cc

import (
	"math/rand/v2"
	"testing"
	"time"

	"weir/kernel/testutil"
	"weir/modules/cc/internal/steps"
)

// receivingModels are the variants with their parameters.
func receivingModels() map[string]ledbatModel {
	return map[string]ledbatModel{"rledbat": {target: 60 * time.Millisecond}, "scavenger": {target: scavengerTarget, explore: true, tolerant: true}}
}

// stepper makes a connection's steps in the kernel and compares each with the model.
type stepper struct {
	steps *steps.Steps
	tune  steps.Tunables
	model *rledbatModel
	m     ledbatModel
	state steps.State
	seen  map[Phase]int

	shared *steps.Shared // nil for a connection with a window of its own
	share  steps.Share
}

func newStepper(t *testing.T, name string) *stepper {
	t.Helper()
	return newStepperOf(newSteps(t), name)
}

func newSteps(t *testing.T) *steps.Steps {
	t.Helper()
	testutil.NeedRoot(t)
	made, err := steps.New()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = made.Close() })
	return made
}

func newStepperOf(made *steps.Steps, name string) *stepper {
	chosen, _ := receivingOf(name)
	tune := steps.Tunables{Target: chosen.tune.Target, Explore: chosen.tune.Explore, Tolerant: chosen.tune.Tolerant}
	return &stepper{steps: made, tune: tune, m: receivingModels()[name], seen: map[Phase]int{}}
}

func (s *stepper) step(t *testing.T, ack steps.Ack) steps.Step {
	t.Helper()
	before := s.state
	if s.shared != nil {
		step, err := s.steps.MakeShared(s.state, ack, s.tune, s.share, s.shared)
		if err != nil {
			t.Fatal(err)
		}
		s.state, s.share = step.State, step.Share
		return step
	}
	step, err := s.steps.Make(s.state, ack, s.tune)
	if err != nil {
		t.Fatal(err)
	}
	s.state = step.State
	if s.model == nil {
		s.model = newRledbatModel(s.m, ack)
	} else if err := s.model.check(step); err != nil {
		t.Fatalf("%v\nbefore %+v\nack    %+v\nafter  %+v", err, before, ack, step.State)
	}
	s.seen[Phase(s.state.Phase)]++
	return step
}

// TestRLEDBATFollowsItsModel makes random steps.
func TestRLEDBATFollowsItsModel(t *testing.T) {
	for name := range receivingModels() {
		t.Run(name, func(t *testing.T) {
			random := testutil.Rand(t)
			for range 15 {
				s := newStepper(t, name)
				connection := newAnything(random)
				for range 400 {
					s.step(t, connection.next())
				}
			}
		})
	}
}

// anything generates random acknowledgments, with queues that come and go.
type anything struct {
	random *rand.Rand
	ack    steps.Ack
	mss    uint32
	base   uint32 // us
	queue  float64
}

func newAnything(random *rand.Rand) *anything {
	a := &anything{random: random, mss: 500 + random.Uint32N(1000), base: 1 + random.Uint32N(200_000)}
	a.ack = steps.Ack{Now: random.Uint32(), Next: random.Uint32(), Mss: a.mss, Tsval: random.Uint32()}
	return a
}

func (a *anything) next() steps.Ack {
	ack, random := a.ack, a.random
	a.queue = max(0, a.queue+random.NormFloat64()*4000)
	if random.IntN(20) == 0 {
		a.queue = 0
	}
	pause := uint32(random.ExpFloat64() * 200) // ticks
	if random.IntN(100) == 0 {
		pause = random.Uint32N(8_000_000)
	}
	ack.Now += pause
	ack.Rtt = 0
	if random.IntN(3) > 0 {
		ack.Rtt = a.base + uint32(a.queue)
	}
	ack.Tsval += random.Uint32N(3)
	filled := ack.Hole == 1 && random.IntN(4) == 0
	if ack.Hole == 0 || filled {
		ack.Next += random.Uint32N(4) * a.mss
		ack.Hole = 0
	}
	if random.IntN(30) == 0 {
		ack.Hole = 1
	}
	ack.Edge = ack.Next + random.Uint32N(200_000)
	a.ack = ack
	return ack
}
