// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"math"
	"net/netip"

	"weir/ix/choose"
	"weir/ix/config"
)

// group is the members with equal choices.
type group struct {
	members []int  // in file order
	denied  []bool // by port: the sponsor does not serve the members
	choice  choose.Member
	paths   int
	small   bool
}

// groups puts members with equal settings together.
func groups(e *config.Exchange) (all []*group) {
	known := map[string]*group{}
	for i := range e.Members {
		m := &e.Members[i]
		g := &group{denied: e.Denied(m.Name), choice: e.Chosen(m), paths: m.Paths, small: m.Small}
		key := fmt.Sprint(g.denied, g.choice, g.paths, g.small)
		if known[key] == nil {
			known[key] = g
			all = append(all, g)
		}
		known[key].members = append(known[key].members, i)
	}
	return all
}

// allShift scales the load of members that use all of their paths: weight/paths keeps 20 bits.
const allShift = 20

// tally counts the paths of a group, by one worker. All counts are sums, so that tallies of workers
// add up to the same totals in any order.
type tally struct {
	before   int    // paths that sponsors offer
	after    [2]int // paths, IPv4 and IPv6
	prefixes [2]int // with a path
	omitted  int    // more-specifics left out for a small member

	lengths  int // of first paths
	shortest int // of each prefix
	seconds  int // distinct second ASes
	chosen   int // paths, those of omitted prefixes too

	today, first, all []uint64  // traffic by port
	failures          []*failed // by scenario
}

func newTally(ports, scenarios int) *tally {
	t := &tally{today: make([]uint64, ports), first: make([]uint64, ports), all: make([]uint64, ports)}
	for range scenarios {
		t.failures = append(t.failures, newFailed(ports))
	}
	return t
}

// add adds the counts of another worker.
func (t *tally) add(o *tally) {
	t.before += o.before
	for i := range t.after {
		t.after[i] += o.after[i]
		t.prefixes[i] += o.prefixes[i]
	}
	t.omitted += o.omitted
	t.lengths += o.lengths
	t.shortest += o.shortest
	t.seconds += o.seconds
	t.chosen += o.chosen
	addAll(t.today, o.today)
	addAll(t.first, o.first)
	addAll(t.all, o.all)
	for i := range t.failures {
		t.failures[i].add(o.failures[i])
	}
}

func addAll(to, from []uint64) {
	for i := range to {
		to[i] += from[i]
	}
}

// worker chooses the paths of one group.
type worker struct {
	group     *group
	tally     *tally
	selection *choose.Selection
	losses    []loss // by scenario

	got, after, cover []int
}

// row counts one prefix.
func (w *worker) row(r *row) {
	t := w.tally
	family := 0
	if r.prefix.Addr().Is6() {
		family = 1
	}
	if today := w.today(r.paths); today >= 0 {
		t.today[r.paths[today].Port] += r.weight
	}
	key := r.prefix
	if w.group.small {
		key = r.root
	}
	// Two paths at least decide whether a failure matters.
	chosen := w.selection.Choose(key, r.paths, max(2, w.group.paths), w.got[:0])
	w.got = chosen[:min(len(chosen), w.group.paths)]
	if len(w.got) > 0 {
		w.fail(key, r, chosen)
		t.prefixes[family]++
		w.count(r)
		if w.group.small && w.sameAsCover(r, key) {
			t.omitted++
		} else {
			t.after[family] += len(w.got)
		}
		load(t.first, t.all, r, w.got, 1)
	}
}

// today returns the path that a route server without choice sends, -1 for none: LOCAL_PREF, AS-path
// length, and the first peer of the file. It counts the paths that sponsors offer.
func (w *worker) today(paths []choose.Path) int {
	best := -1
	for i := range paths {
		p := &paths[i]
		if w.group.denied[p.Port] {
			continue
		}
		w.tally.before++
		if best < 0 || p.LocalPref > paths[best].LocalPref || p.LocalPref == paths[best].LocalPref && p.Length < paths[best].Length {
			best = i
		}
	}
	return best
}

// count adds lengths and second ASes of the chosen paths.
func (w *worker) count(r *row) {
	t := w.tally
	t.lengths += int(r.paths[w.got[0]].Length)
	shortest := uint16(math.MaxUint16)
	for i := range r.paths {
		if !w.group.choice.Barred[r.paths[i].Port] {
			shortest = min(shortest, r.paths[i].Length)
		}
	}
	t.shortest += int(shortest)
	t.chosen += len(w.got)
	for n, i := range w.got {
		distinct := true
		for _, j := range w.got[:n] {
			distinct = distinct && r.paths[i].Second != r.paths[j].Second
		}
		if distinct {
			t.seconds++
		}
	}
}

// sameAsCover reports whether the covering prefix has the same next hops in the same order.
func (w *worker) sameAsCover(r *row, key netip.Prefix) bool {
	if r.cover == nil {
		return false
	}
	w.cover = w.selection.Choose(key, r.cover, w.group.paths, w.cover[:0])
	if len(w.cover) != len(w.got) {
		return false
	}
	for n := range w.got {
		a, b := &r.paths[w.got[n]], &r.cover[w.cover[n]]
		if a.Port != b.Port || a.Hop != b.Hop {
			return false
		}
	}
	return true
}

// load adds the traffic of a prefix to its ports, or removes it with sign -1.
func load(first, all []uint64, r *row, chosen []int, sign int64) {
	if len(chosen) == 0 {
		return
	}
	first[r.paths[chosen[0]].Port] += r.weight * uint64(sign)
	part := r.weight << allShift / uint64(len(chosen)) * uint64(sign)
	for _, i := range chosen {
		all[r.paths[i].Port] += part
	}
}
