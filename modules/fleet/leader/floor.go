// SPDX-License-Identifier: Apache-2.0

package leader

import (
	"fmt"
	"maps"
	"slices"

	"weir/internal/units"
)

// Member is a host as saved: a new leader reserves the floors of hosts that it has not heard of.
type Member struct {
	Host   string           `json:"host"`
	Floors map[string]Floor `json:"floors"` // by claim
}

// Floor is the rate that a claim has without contact.
type Floor struct {
	Limit string  `json:"limit"`
	Rate  float64 `json:"rate"` // bit/s; 0 if it was not admitted
}

// admit computes the floors of a host's claims. A guarantee is admitted if the floors of its limit
// and of all limits above fit into their rates; otherwise the floor stays as it is.
func (l *Leader) admit(h *host) {
	floors := map[string]Floor{}
	for _, id := range slices.Sorted(maps.Keys(h.claims)) {
		c := h.claims[id]
		c.floor, c.reason = 0, ""
		if c.limit < 0 {
			c.reason = fmt.Sprintf("the fleet has no shared limit %s", c.Limit)
			if had := h.floors[id]; had.Rate > 0 {
				floors[id] = had
			}
			continue
		}
		had := h.floors[id]
		if had.Limit == c.Limit {
			c.floor = min(had.Rate, c.Min)
		}
		if c.Min > c.floor {
			if name, free, fits := l.fits(h, floors, id, c.limit, c.Min); fits {
				c.floor = c.Min
			} else {
				c.reason = fmt.Sprintf("min %s exceeds the rate of %s: other guarantees leave %s", units.BitRate(c.Min), name, units.BitRate(max(0, free)))
			}
		}
		kept := min(c.Floor, had.Rate) // the host confirms a lowered floor by its report
		if r, there := h.active[id]; there {
			kept = min(kept, r.Floor)
		}
		if rate := max(c.floor, kept); rate > 0 {
			floors[id] = Floor{c.Limit, rate}
		}
	}
	if !maps.Equal(floors, h.floors) {
		h.floors = floors
		h.version++
	}
}

// fits reports whether a guarantee fits beside all other floors, and otherwise the first limit
// that is too low, and its free rate.
func (l *Leader) fits(h *host, own map[string]Floor, id string, limit int, rate float64) (name string, free float64, fits bool) {
	reserved := make([]float64, len(l.tree.limits))
	reserve := func(other string, f Floor) {
		for at := l.tree.Index(f.Limit); at >= 0 && other != id; at = l.tree.limits[at].Parent {
			reserved[at] += f.Rate
		}
	}
	for _, other := range l.hosts {
		for claim, f := range other.floors {
			if _, replaced := own[claim]; other != h {
				reserve("", f)
			} else if !replaced {
				reserve(claim, f)
			}
		}
	}
	for claim, f := range own {
		reserve(claim, f)
	}
	for at := limit; at >= 0; at = l.tree.limits[at].Parent {
		if free := l.tree.limits[at].Rate - reserved[at]; rate > free {
			return l.tree.names[at], free, false
		}
	}
	return "", 0, true
}

// Unsaved returns the members to save before their next grants, with versions for Saved.
func (l *Leader) Unsaved() (all []Member, versions map[string]int) {
	versions = map[string]int{}
	for _, name := range slices.Sorted(maps.Keys(l.hosts)) {
		if h := l.hosts[name]; h.version != h.saved {
			versions[name] = h.version
			all = append(all, Member{name, maps.Clone(h.floors)})
		}
	}
	return all, versions
}

// Saved confirms that members are saved.
func (l *Leader) Saved(versions map[string]int) {
	for name, version := range versions {
		if h := l.hosts[name]; h != nil {
			h.saved = max(h.saved, version)
		}
	}
}

// Members returns all members, for saving.
func (l *Leader) Members() (all []Member) {
	for _, name := range slices.Sorted(maps.Keys(l.hosts)) {
		all = append(all, Member{name, maps.Clone(l.hosts[name].floors)})
	}
	return all
}

// CheckTree rejects a tree without a limit that is in use, and one with a rate below the admitted
// floors.
func (l *Leader) CheckTree(tree Tree) error {
	reserved := make([]float64, len(tree.limits))
	for _, name := range slices.Sorted(maps.Keys(l.hosts)) {
		for id, f := range l.hosts[name].floors {
			at := tree.Index(f.Limit)
			if at < 0 && f.Rate > 0 {
				return fmt.Errorf("shared limit %s is in use: %s of host %s has a guarantee of %s in it", f.Limit, id, name, units.BitRate(f.Rate))
			}
			for ; at >= 0; at = tree.limits[at].Parent {
				reserved[at] += f.Rate
			}
		}
	}
	for i, limit := range tree.limits {
		if reserved[i] > limit.Rate {
			return fmt.Errorf("rate %s of shared limit %s is below the guarantees of its hosts, %s", units.BitRate(limit.Rate), tree.names[i], units.BitRate(reserved[i]))
		}
	}
	return nil
}

// SetTree replaces the shared limits by a tree that passes CheckTree.
func (l *Leader) SetTree(tree Tree) error {
	if err := l.CheckTree(tree); err != nil {
		return err
	}
	l.tree = tree
	for _, h := range l.hosts {
		for _, c := range h.claims {
			c.limit = tree.Index(c.Limit)
		}
		if h.known {
			l.admit(h)
		}
	}
	return nil
}
