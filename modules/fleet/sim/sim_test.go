// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"
)

const gbit = 1e9

func config(hosts int) Config {
	return Config{Hosts: hosts, Rate: 10 * gbit, Min: gbit / 10 / float64(hosts), Interval: 250 * time.Millisecond, Lease: time.Second,
		Delay: time.Millisecond, Pause: 5 * time.Millisecond, Seed: 1}
}

// reach runs until the hosts use 98 % of the possible rate, and returns the elapsed time.
func reach(t *testing.T, s *Sim, within time.Duration) time.Duration {
	t.Helper()
	const step = 5 * time.Millisecond
	for at := time.Duration(0); at <= within; at += step {
		if used, possible := s.Used(); used >= 0.98*possible {
			return at
		}
		s.Run(step)
	}
	used, possible := s.Used()
	t.Fatalf("after %v the hosts use %.3f of the limit, %.3f would be possible", within, used, possible)
	return 0
}

func TestRatesFollowDemand(t *testing.T) {
	const hosts = 100
	s := New(config(hosts))
	s.StartLeader()
	for i := range hosts {
		s.Demand(i, 0.2*s.c.Rate/hosts)
	}
	s.Run(3 * time.Second)
	within := 3 * s.c.Interval
	t.Log("20 % demand:", reach(t, s, 0))
	for i := range hosts / 10 {
		s.Demand(i, s.c.Rate)
	}
	t.Log("a tenth wants everything:", reach(t, s, within))
	s.Run(time.Second)
	for i := range hosts {
		s.Demand(i, s.c.Rate)
	}
	s.Run(100 * time.Millisecond)
	t.Log("all want everything:", reach(t, s, within))
	s.Run(2 * time.Second)
	if jain := s.Jain(); jain < 0.999 {
		t.Errorf("Jain's index is %.4f", jain)
	}
	for i := range hosts / 2 {
		s.Demand(i, 0)
	}
	s.Run(10 * time.Millisecond)
	t.Log("half stop:", reach(t, s, within))
	if s.Max > 1+1e-9 {
		t.Errorf("the hosts had %.6f of the limit", s.Max)
	}
	t.Logf("%d messages, %d decisions of %v, longest %v", s.Messages, s.Decisions, s.Spent/time.Duration(s.Decisions), s.Longest)
}

func TestFailover(t *testing.T) {
	const hosts = 100
	s := New(config(hosts))
	s.StartLeader()
	for i := range hosts {
		s.Demand(i, s.c.Rate)
	}
	s.Run(3 * time.Second)
	reach(t, s, 0)
	s.KillLeader()
	s.Run(s.c.Lease + s.c.Interval)
	if sum := s.Sum(); sum > 0.01+1e-6 || sum < 0.01-1e-6 {
		t.Errorf("one lease after the end of the leader the hosts have %.3f of the limit, want their floors, 0.01", sum)
	}
	s.StartLeader()
	t.Log("a new leader:", reach(t, s, 3*s.c.Interval))
	s.KillLeader()
	s.StartLeader() // before the leases end
	s.Run(3 * s.c.Interval)
	reach(t, s, 0)
	if s.Max > 1+1e-9 {
		t.Errorf("the hosts had %.6f of the limit", s.Max)
	}
}

func TestWeights(t *testing.T) {
	c := config(10)
	c.Weight = func(i int) int { return 1 + i%3 }
	s := New(c)
	s.StartLeader()
	for i := range c.Hosts {
		s.Demand(i, s.c.Rate)
	}
	s.Run(3 * time.Second)
	if ratio := s.Rate(2) / s.Rate(0); ratio < 2.99 || ratio > 3.01 {
		t.Errorf("weights 3 and 1 get rates of ratio %.3f", ratio)
	}
}

// TestNoDisorderExceedsTheLimit changes demands, kills and starts leaders and hosts, cuts and loses
// messages at random.
func TestNoDisorderExceedsTheLimit(t *testing.T) {
	runs := 300
	if testing.Short() {
		runs = 30
	}
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 2))
	for range runs {
		c := config(1 + random.IntN(20))
		c.Seed, c.Loss = random.Uint64(), random.Float64()*random.Float64()
		c.Delay = time.Duration(random.ExpFloat64() * float64(200*time.Millisecond))
		c.Min = math.Floor(c.Rate / float64(c.Hosts) * random.Float64())
		s := New(c)
		for range 200 {
			i := random.IntN(c.Hosts)
			switch random.IntN(10) {
			case 0:
				s.StartLeader()
			case 1:
				s.KillLeader()
			case 2:
				s.KillHost(i)
			case 3:
				s.StartHost(i)
			case 4:
				s.Cut(i, random.IntN(2) == 0)
			default:
				s.Demand(i, random.Float64()*c.Rate)
			}
			s.Run(time.Duration(random.ExpFloat64() * float64(100*time.Millisecond)))
			if s.Max > 1+1e-9 {
				t.Fatalf("seed %d, run of seed %d: the hosts have %.6f of the limit after %v", seed, c.Seed, s.Max, s.now)
			}
		}
	}
}
