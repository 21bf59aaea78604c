// SPDX-License-Identifier: Apache-2.0

package plan_test

import (
	"maps"
	"math/rand/v2"
	"net/netip"
	"testing"

	"weir/kernel/testutil"
	"weir/modules/offload/plan"
	"weir/modules/offload/simulate"
	"weir/modules/offload/state"
)

// counted generates traffic to the ends of prefixes.
func counted(r *rand.Rand, p *plan.Planner, s *state.State) map[netip.Prefix]uint64 {
	all := map[netip.Prefix]uint64{}
	for to := range simulate.Prefixes(s) {
		if r.IntN(2) == 0 {
			all[p.Unit(to.Addr())] += uint64(r.IntN(1000))
		}
	}
	return all
}

// partly verifies a plan with a budget: it forwards as the kernel does.
func partly(t *testing.T, what string, s *state.State, scope simulate.Scope, f simulate.Fast) (forwarded int) {
	t.Helper()
	fib := simulate.New(s)
	found, _, forwarded := fib.Check(simulate.Boundaries(simulate.Prefixes(s)), f, fib.Expect(scope), true, 3)
	for _, d := range found {
		t.Errorf("%s: %s", what, d)
	}
	return forwarded
}

// For random routes, counters, budgets and changes, no selected prefix hides a longer one outside
// the selection, and the selection keeps within the budget.
func TestNoChoiceHidesARoute(t *testing.T) {
	r := testutil.Rand(t)
	forwarded := 0
	for round := range 60 {
		s := world()
		scatter(r, s, state.MainTable, r.IntN(120))
		scatter(r, s, 1000, r.IntN(40))
		policy, scope := policyOf(r)
		p, err := plan.New(policy, s)
		if err != nil {
			t.Fatal(err)
		}
		for range 5 {
			budget := 1 + r.IntN(60)
			out := p.Choose(budget, counted(r, p, s))
			plain, fewer := set(p.Plain(false), p.Plain(true)), set(p.Aggregate(zero[0], plan.CPU), p.Aggregate(zero[1], plan.CPU))
			if len(plain) != out.Rules || out.Rules > budget || len(fewer) > out.Rules {
				t.Fatalf("round %d: %d rules are told, the table has %d, aggregated %d, of a budget of %d", round, out.Rules, len(plain), len(fewer), budget)
			}
			if out.Carried > out.Traffic || out.Chosen > out.Routes {
				t.Fatalf("round %d: %+v", round, out)
			}
			forwarded += partly(t, "lookup", s, scope, fast(p, p.Lookup))
			partly(t, "plain", s, scope, fast(p, table(plain)))
			partly(t, "aggregated", s, scope, fast(p, table(fewer)))
			before := maps.Clone(s.Tables[state.MainTable])
			scatter(r, s, state.MainTable, 1+r.IntN(5))
			for to := range s.Tables[state.MainTable] {
				if _, there := before[to]; !there || r.IntN(4) == 0 {
					p.Route(to)
				}
			}
			for to := range before {
				p.Route(to)
			}
			for at, n := range s.Neighbors {
				n.Valid = !n.Valid
				s.Neighbors[at] = n
				p.Neighbor(at)
				break
			}
			partly(t, "changed", s, scope, fast(p, p.Lookup))
			if t.Failed() {
				t.Fatalf("round %d: budget %d, policy %+v", round, budget, policy)
			}
		}
	}
	if forwarded == 0 {
		t.Error("no choice had anything forwarded")
	}
}

// Changed lists every difference of a selection: a table updated by it equals a new one.
func TestAChoiceTellsWhatItChanges(t *testing.T) {
	r := testutil.Rand(t)
	for range 30 {
		s := world()
		scatter(r, s, state.MainTable, 80)
		p, err := plan.New(plan.Policy{From: []string{"eth0.20", "eth0.21", "eth0.22", "eth1.24"}, IPv4: true, IPv6: true}, s)
		if err != nil {
			t.Fatal(err)
		}
		for range 4 {
			before := map[netip.Addr]plan.Decision{}
			for a := range simulate.Boundaries(simulate.Prefixes(s)) {
				before[a] = p.Lookup(a)
			}
			out := p.Choose(1+r.IntN(40), counted(r, p, s))
			for a, d := range before {
				told := false
				for _, to := range out.Changed {
					told = told || to.Contains(a)
				}
				if p.Lookup(a) != d && !told {
					t.Fatalf("%s is decided otherwise, and no prefix of it is told", a)
				}
			}
		}
	}
}

// With constant counters, each change of a selection carries more packets, and the changes end.
func TestChoicesDoNotFlap(t *testing.T) {
	r := testutil.Rand(t)
	for round := range 40 {
		s := world()
		scatter(r, s, state.MainTable, 100)
		p, err := plan.New(plan.Policy{From: []string{"eth0.20", "eth0.21", "eth0.22", "eth1.24"}, IPv4: true, IPv6: true}, s)
		if err != nil {
			t.Fatal(err)
		}
		budget := 5 + r.IntN(40)
		p.Choose(budget, counted(r, p, s))
		traffic := counted(r, p, s)
		before, rounds := uint64(0), 0
		for out := p.Choose(budget, traffic); ; out = p.Choose(budget, traffic) {
			if rounds++; rounds > 20 {
				t.Fatalf("round %d: no choice is the last one", round)
			}
			if rounds > 1 && len(out.Changed) > 0 && out.Carried < before {
				t.Fatalf("round %d: %d packets are carried after a change, %d before", round, out.Carried, before)
			}
			before = out.Carried
			if rounds > 1 && len(out.Changed) == 0 {
				break
			}
		}
	}
}

// A route replaces another one only with more than a quarter more packets, and two.
func TestAChallengerNeedsAQuarterMore(t *testing.T) {
	s := world()
	one, other := netip.MustParsePrefix("198.51.100.0/24"), netip.MustParsePrefix("203.0.113.0/24")
	for i, to := range []netip.Prefix{one, other} {
		s.Put(state.MainTable, to, state.Route{Type: state.Unicast, Group: s.GroupOf([]state.Hop{via(i, 2, false)})})
	}
	p, err := plan.New(plan.Policy{From: []string{"eth0.20", "eth0.21"}, IPv4: true}, s)
	if err != nil {
		t.Fatal(err)
	}
	chosen := func(to netip.Prefix) bool { return p.Lookup(to.Addr()) != plan.CPU }
	for _, step := range []struct {
		one, other uint64
		first      bool
	}{
		{100, 99, true}, {100, 120, true}, {100, 127, true}, {100, 128, false}, {120, 100, false}, {127, 100, false}, {128, 100, true}, {0, 2, true}, {0, 3, false}, {0, 0, false},
	} {
		out := p.Choose(1, map[netip.Prefix]uint64{one: step.one, other: step.other})
		if chosen(one) != step.first || chosen(other) == step.first || out.Rules != 1 {
			t.Errorf("%d and %d packets: %+v", step.one, step.other, out)
		}
	}
}
