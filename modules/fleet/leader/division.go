// SPDX-License-Identifier: Apache-2.0

package leader

import (
	"maps"
	"math"
	"slices"
	"time"

	"weir/modules/fleet/alloc"
)

// division is the input of one allocation. claims, committed and places have the same order.
type division struct {
	claims    []alloc.Claim
	committed []float64
	places    []place
	free      []alloc.Limit // limits with their uncommitted rates
}

// place is the host of a claim. claim is nil for the floor of a silent host.
type place struct {
	host  *host
	claim *claim
}

const (
	// A scope that uses this share of its rate, or is throttled, may want any rate.
	fullUse = 0.985
	// Demand beyond the used rate, so that a rising flow is not throttled at once.
	growth = 1.04
	// Share of a limit that its idle claims get together under contention, so that a scope that
	// starts has a rate until its next report.
	probeShare = 0.005
)

// demand estimates the rate that a claim would use. probe is the least estimate.
func (c *claim) demand(probe float64) float64 {
	if c.Throttled || c.Used >= fullUse*c.Rate {
		return math.Inf(1)
	}
	return max(c.Used*growth, probe)
}

// division collects the claims of all hosts.
func (l *Leader) division(now time.Time) (d division) {
	counts := make([]float64, len(l.tree.limits))
	for _, h := range l.hosts {
		for _, c := range h.claims {
			if c.limit >= 0 {
				counts[c.limit]++
			}
		}
	}
	add := func(p place, a alloc.Claim, committed float64) {
		d.places, d.claims, d.committed = append(d.places, p), append(d.claims, a), append(d.committed, committed)
	}
	for _, name := range slices.Sorted(maps.Keys(l.hosts)) {
		h := l.hosts[name]
		live := h.live(now, l.lease)
		if live {
			for _, id := range slices.Sorted(maps.Keys(h.claims)) {
				if c := h.claims[id]; c.limit >= 0 {
					add(place{h, c}, l.alloc(c, counts[c.limit]), l.committed(now, h, id))
				}
			}
		}
		for _, id := range slices.Sorted(maps.Keys(h.floors)) {
			f := h.floors[id]
			if at := l.tree.Index(f.Limit); at >= 0 && !(live && h.claims[id] != nil) {
				add(place{h, nil}, alloc.Claim{Limit: at, Min: f.Rate, Max: f.Rate, Demand: f.Rate}, h.held(id))
			}
		}
	}
	d.free = l.uncommitted(now, d)
	return d
}

// alloc returns the input of the allocation for a claim among count claims of its limit.
func (l *Leader) alloc(c *claim, count float64) alloc.Claim {
	limit := l.tree.limits[c.limit].Rate
	most := c.Max
	if most == 0 {
		most = limit
	}
	return alloc.Claim{Limit: c.limit, Min: c.floor, Max: max(most, c.floor), Weight: float64(max(c.Weight, 1)),
		Demand: max(c.floor, c.demand(probeShare*limit/count))}
}

// uncommitted returns the limits with the rates that no host may use now; 0 while grants of a
// former leader may be active.
func (l *Leader) uncommitted(now time.Time, d division) []alloc.Limit {
	free := slices.Clone(l.tree.limits)
	settling := l.settling(now)
	for i, c := range d.claims {
		for at := c.Limit; at >= 0; at = free[at].Parent {
			free[at].Rate -= d.committed[i]
		}
	}
	for i := range free {
		free[i].Min, free[i].Rate = 0, max(0, free[i].Rate)
		if settling {
			free[i].Rate = 0
		}
	}
	return free
}

// raises returns a claim for each increase: target minus committed rate, of the uncommitted rates.
func (d division) raises(target []float64) []alloc.Claim {
	all := slices.Clone(d.claims)
	for i := range all {
		wants := max(0, target[i]-d.committed[i])
		all[i].Min, all[i].Max, all[i].Demand = 0, wants, wants
	}
	return all
}
