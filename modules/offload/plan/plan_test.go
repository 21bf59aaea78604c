// SPDX-License-Identifier: Apache-2.0

package plan_test

import (
	"iter"
	"maps"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"

	"weir/kernel/testutil"
	"weir/modules/offload/plan"
	"weir/modules/offload/simulate"
	"weir/modules/offload/state"
)

var zero = []netip.Prefix{netip.MustParsePrefix("0.0.0.0/0"), netip.MustParsePrefix("::/0")}

// judged compares a fast path with the simulator at all boundaries.
func judged(t *testing.T, what string, s *state.State, scope simulate.Scope, f simulate.Fast, addresses iter.Seq[netip.Addr]) {
	t.Helper()
	fib := simulate.New(s)
	found, looked, _ := fib.Check(addresses, f, fib.Expect(scope), false, 3)
	for _, d := range found {
		t.Errorf("%s: %s", what, d)
	}
	if looked == 0 {
		t.Fatal("no address was looked at")
	}
}

// For random routes, the plan decides every boundary address as the kernel's tables do, plain and
// aggregated.
func TestPlansDecideAsTheKernelDoes(t *testing.T) {
	r := testutil.Rand(t)
	for round := range 100 {
		s := world()
		scatter(r, s, state.MainTable, r.IntN(120))
		scatter(r, s, state.DefaultTable, r.IntN(6))
		if r.IntN(3) == 0 {
			scatter(r, s, state.LocalTable, r.IntN(10))
		}
		scatter(r, s, 1000, r.IntN(40))
		policy, scope := policyOf(r)
		p, err := plan.New(policy, s)
		if err != nil {
			t.Fatal(err)
		}
		judged(t, "lookup", s, scope, fast(p, p.Lookup), simulate.Boundaries(simulate.Prefixes(s)))
		plain := set(p.Plain(false), p.Plain(true))
		judged(t, "plain", s, scope, fast(p, table(plain)), simulate.Boundaries(simulate.Prefixes(s)))
		fewer := set(p.Aggregate(zero[0], plan.CPU), p.Aggregate(zero[1], plan.CPU))
		judged(t, "aggregated", s, scope, fast(p, table(fewer)), simulate.Boundaries(simulate.Prefixes(s)))
		if len(fewer) > len(plain) {
			t.Errorf("aggregation makes %d prefixes of %d", len(fewer), len(plain))
		}
		if t.Failed() {
			t.Fatalf("round %d: policy %+v", round, policy)
		}
	}
}

// The simulator finds a planted wrong route.
func TestTheSimulatorFindsWhatIsWrong(t *testing.T) {
	s := world()
	group := func(host int) state.Group { return s.GroupOf([]state.Hop{via(host, 2, false)}) }
	s.Put(state.MainTable, netip.MustParsePrefix("198.51.100.0/24"), state.Route{Type: state.Unicast, Group: group(0)})
	s.Put(state.MainTable, netip.MustParsePrefix("198.51.100.64/26"), state.Route{Type: state.Unicast, Group: group(1)})
	p, err := plan.New(plan.Policy{From: []string{"eth0.20", "eth0.21"}, IPv4: true}, s)
	if err != nil {
		t.Fatal(err)
	}
	hidden := set(p.Plain(false))
	delete(hidden, netip.MustParsePrefix("198.51.100.64/26"))
	fib := simulate.New(s)
	found, _, _ := fib.Check(simulate.Boundaries(simulate.Prefixes(s)), fast(p, table(hidden)), nil, false, 100)
	harmful := 0
	for _, d := range found {
		if d.Harmful() {
			harmful++
			if !netip.MustParsePrefix("198.51.100.64/26").Contains(d.Address) {
				t.Errorf("found %s", d)
			}
		}
	}
	if harmful != 2 {
		t.Errorf("found %d addresses that go astray, want both ends of the hidden prefix: %v", harmful, found)
	}
}

// At every step of an update each address has its old or its new decision.
func TestEveryMomentOfAnUpdateIsRight(t *testing.T) {
	r := testutil.Rand(t)
	for range 100 {
		random := func(n int) map[netip.Prefix]plan.Decision {
			all := map[netip.Prefix]plan.Decision{}
			for range n {
				a := netip.AddrFrom4([4]byte{10, 0, byte(r.IntN(2)) * 255, byte(r.IntN(256))})
				to, _ := a.Prefix(r.IntN(33))
				all[to] = plan.Decision(r.IntN(4))
			}
			return all
		}
		have, want := random(r.IntN(20)), random(r.IntN(20))
		now := map[netip.Prefix]plan.Decision{}
		var all []netip.Prefix
		for to, d := range have {
			now[to] = d
			all = append(all, to)
		}
		for to := range want {
			all = append(all, to)
		}
		before, after := table(have), table(want)
		for _, op := range plan.Order(sorted(have), sorted(want)) {
			_, there := now[op.To]
			if op.Remove {
				delete(now, op.To)
			} else {
				now[op.To] = op.Decision
			}
			if there != (op.Remove || op.Replace) {
				t.Fatalf("%+v, and it was there: %t", op, there)
			}
			for a := range simulate.Boundaries(func(yield func(netip.Prefix) bool) {
				for _, p := range all {
					if !yield(p) {
						return
					}
				}
			}) {
				if got := table(now)(a); got != before(a) && got != after(a) {
					t.Fatalf("after %+v %s is decided as %d: neither %d nor %d", op, a, got, before(a), after(a))
				}
			}
		}
		if len(now) != len(want) {
			t.Fatalf("%d entries are left, want %d", len(now), len(want))
		}
	}
}

func sorted(of map[netip.Prefix]plan.Decision) (all []plan.Entry) {
	for _, to := range slices.SortedFunc(maps.Keys(of), state.Compare) {
		all = append(all, plan.Entry{To: to, Decision: of[to]})
	}
	return all
}

// Rules with criteria beside the destination are rejected by name.
func TestRulesThatAFastPathCannotFollowAreRefused(t *testing.T) {
	for want, rule := range map[string]state.Rule{
		"the source 10.0.0.0/8": {Priority: 5, Action: 1, Table: 5, From: netip.MustParsePrefix("10.0.0.0/8"), Suppress: -1},
		"fwmark":                {Priority: 5, Action: 1, Table: 5, Other: "fwmark", Suppress: -1},
		"suppress_prefixlength": {Priority: 5, Action: 1, Table: 254, Suppress: 0},
		"the device eth0":       {Priority: 5, Action: 1, Table: 5, In: "eth0", Suppress: -1},
		"by negation (not)":     {Priority: 5, Action: 1, Table: 5, Inverted: true, Suppress: -1},
	} {
		s := world()
		s.Rules = append(s.Rules, rule)
		s.SortRules()
		if _, err := plan.New(plan.Policy{From: []string{"eth0"}, IPv4: true}, s); err == nil || !contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %q", rule, err, want)
		}
	}
	if _, err := plan.New(plan.Policy{From: []string{"br0"}, IPv4: true}, world()); err == nil || !contains(err.Error(), "bridge") {
		t.Errorf("a bridge: %v", err)
	}
}

func contains(text, part string) bool {
	for i := range text {
		if len(text)-i >= len(part) && text[i:i+len(part)] == part {
			return true
		}
	}
	return false
}

func pick(r *rand.Rand, s *state.State, table uint32) (netip.Prefix, state.Route, bool) {
	for to, e := range s.Tables[table] {
		if r.IntN(3) == 0 {
			return to, e.Best, true
		}
	}
	return netip.Prefix{}, state.Route{}, false
}
