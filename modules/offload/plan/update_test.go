// SPDX-License-Identifier: Apache-2.0

package plan_test

import (
	"maps"
	"net/netip"
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"

	"weir/kernel/testutil"
	"weir/modules/offload/plan"
	"weir/modules/offload/simulate"
	"weir/modules/offload/state"
)

// After each single change a planner decides as the kernel does, and as a new planner.
func TestChangesLeadToThePlanOfABeginner(t *testing.T) {
	r := testutil.Rand(t)
	tables := []uint32{state.LocalTable, state.MainTable, state.DefaultTable, 1000}
	for round := range 10 {
		s := world()
		scatter(r, s, state.MainTable, 40)
		scatter(r, s, 1000, 20)
		policy, scope := policyOf(r)
		p, err := plan.New(policy, s)
		if err != nil {
			t.Fatal(err)
		}
		for range 40 {
			switch table := tables[r.IntN(len(tables))]; r.IntN(5) {
			case 0, 1:
				before := maps.Clone(s.Tables[table])
				scatter(r, s, table, 1+r.IntN(3))
				for to := range s.Tables[table] {
					if e, there := before[to]; !there || !reflect.DeepEqual(e, s.Tables[table][to]) {
						p.Route(to)
					}
				}
			case 2:
				if to, route, ok := pick(r, s, table); ok {
					s.Drop(table, to, route)
					p.Route(to)
				}
			default:
				for at, n := range s.Neighbors {
					n.Valid = !n.Valid
					s.Neighbors[at] = n
					p.Neighbor(at)
					break
				}
			}
			judged(t, "lookup", s, scope, fast(p, p.Lookup), simulate.Boundaries(simulate.Prefixes(s)))
			if t.Failed() {
				t.Fatalf("round %d: policy %+v", round, policy)
			}
		}
		anew, err := plan.New(policy, s)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(nexts(anew, anew.Plain(false), anew.Plain(true)), nexts(p, p.Plain(false), p.Plain(true))); diff != "" {
			t.Fatalf("a planner that begins anew differs (-anew +changed):\n%s", diff)
		}
	}
}

// nexts returns prefixes and their hops, independent of decision numbers.
func nexts(p *plan.Planner, lists ...[]plan.Entry) map[string]plan.Next {
	all := map[string]plan.Next{}
	for to, d := range set(lists...) {
		all[to.String()] = p.Next(d)
	}
	return all
}

// A table can be aggregated below any prefix by itself.
func TestPartsOfATableAreAggregatedAlone(t *testing.T) {
	r := testutil.Rand(t)
	for range 20 {
		s := world()
		scatter(r, s, state.MainTable, 80)
		policy, scope := policyOf(r)
		p, err := plan.New(policy, s)
		if err != nil {
			t.Fatal(err)
		}
		installed := set(p.Aggregate(zero[0], plan.CPU), p.Aggregate(zero[1], plan.CPU))
		before := maps.Clone(s.Tables[state.MainTable])
		scatter(r, s, state.MainTable, 1)
		for to := range s.Tables[state.MainTable] {
			if e, there := before[to]; there && reflect.DeepEqual(e, s.Tables[state.MainTable][to]) {
				continue
			}
			p.Route(to)
			top, _ := to.Addr().Prefix(min(to.Bits(), 16))
			maps.DeleteFunc(installed, func(have netip.Prefix, _ plan.Decision) bool {
				return have.Bits() >= top.Bits() && top.Contains(have.Addr())
			})
			for _, e := range p.Aggregate(top, table(installed)(top.Addr())) {
				installed[e.To] = e.Decision
			}
		}
		judged(t, "aggregated in part", s, scope, fast(p, table(installed)), simulate.Boundaries(simulate.Prefixes(s)))
	}
}
