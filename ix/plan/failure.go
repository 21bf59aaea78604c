// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"net/netip"
	"slices"
	"strings"

	"weir/internal/fault"
	"weir/internal/nearest"
	"weir/ix/choose"
	"weir/ix/config"
)

// scenario is a failure: a sponsor, or one of its ports.
type scenario struct {
	name string
	lost []bool // by port
}

// failed counts the effects of a failure on a group.
type failed struct {
	lost      int // paths of the failed ports
	announced int // new paths
	displaced int // paths of other ports that leave a set, for length or diversity
	moved     int // prefixes with another first path
	dark      int // prefixes without any path left

	first, all []uint64 // change of the traffic by port, modulo 2^64
}

func newFailed(ports int) *failed {
	return &failed{first: make([]uint64, ports), all: make([]uint64, ports)}
}

func (f *failed) add(o *failed) {
	f.lost += o.lost
	f.announced += o.announced
	f.displaced += o.displaced
	f.moved += o.moved
	f.dark += o.dark
	addAll(f.first, o.first)
	addAll(f.all, o.all)
}

// loss is a scenario for one group.
type loss struct {
	lost      []bool
	selection *choose.Selection // without the failed ports
}

// fail compares the chosen paths with those chosen without the failed ports. The first of extra are
// the chosen paths; extra has two at least, if there are two.
func (w *worker) fail(key netip.Prefix, r *row, extra []int) {
	for n := range w.losses {
		l := &w.losses[n]
		isLost := func(i int) bool { return l.lost[r.paths[i].Port] }
		if w.selection.Steady() && !slices.ContainsFunc(extra, isLost) {
			continue
		}
		w.after = l.selection.Choose(key, r.paths, w.group.paths, w.after[:0])
		w.tally.failures[n].compare(r, w.got, w.after, isLost)
	}
}

// compare adds the difference of two sets of a prefix.
func (f *failed) compare(r *row, before, after []int, isLost func(int) bool) {
	if slices.Equal(before, after) {
		return
	}
	load(f.first, f.all, r, before, -1)
	load(f.first, f.all, r, after, 1)
	for _, i := range before {
		switch {
		case isLost(i):
			f.lost++
		case !slices.Contains(after, i):
			f.displaced++
		}
	}
	for _, i := range after {
		if !slices.Contains(before, i) {
			f.announced++
		}
	}
	switch {
	case len(after) == 0:
		f.dark++
	case before[0] != after[0]:
		f.moved++
	}
}

// scenarios returns the failure that a plan shows, or those of all sponsors.
func (o *Options) scenarios(e *config.Exchange) (all []scenario, err error) {
	var names []string
	if o.Without != "" {
		names = append(names, o.Without)
	} else if o.Failures {
		for _, s := range e.Sponsors {
			names = append(names, s.Name)
		}
	}
	for _, name := range names {
		lost, err := failedPorts(e, name)
		if err != nil {
			return nil, err
		}
		all = append(all, scenario{name, lost})
	}
	return all, nil
}

// failedPorts returns, by port, whether SPONSOR or SPONSOR/PORT names it. An unknown name is a
// fault of status Usage.
func failedPorts(e *config.Exchange, name string) (lost []bool, err error) {
	sponsor, port, one := strings.Cut(name, "/")
	var known []string
	found := false
	for _, s := range e.Sponsors {
		known = append(known, s.Name)
		for _, p := range s.Ports {
			is := s.Name == sponsor && (!one || p.Name == port)
			if s.Name == sponsor && one {
				known = append(known, s.Name+"/"+p.Name)
			}
			found = found || is
			lost = append(lost, is)
		}
	}
	if !found {
		return nil, fault.New(fault.Usage, "name a sponsor of the file, or SPONSOR/PORT", "there is no sponsor or port %q%s", name, nearest.Hint(name, known))
	}
	return lost, nil
}
