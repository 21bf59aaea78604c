// SPDX-License-Identifier: Apache-2.0

package live

import (
	"context"
	"net/netip"
	"slices"
	"time"

	"weir/kernel/netns"
	"weir/kernel/packetfilter"
	"weir/kernel/routing"
	"weir/modules/offload/state"
)

// Follower keeps a state equal to the kernel's. Not for concurrent use.
type Follower struct {
	State  *state.State
	ns     *netns.Namespace
	events *routing.Follower
	watch  *packetfilter.Watch
}

// Changes holds the differences.
type Changes struct {
	Routes    map[netip.Prefix]bool
	Neighbors map[state.Where]bool
	Links     bool
	// Anew requires a complete read: events were lost, or the kernel changes more than it reports.
	// Uncertain means that the state may be wrong until then.
	Anew, Uncertain bool
}

// Follow subscribes, then reads the state: nothing in between is missed.
func Follow(ns *netns.Namespace) (*Follower, error) {
	events, err := routing.Follow(ns)
	if err != nil {
		return nil, err
	}
	watch, err := packetfilter.Follow(ns)
	if err != nil {
		events.Close()
		return nil, err
	}
	f := &Follower{ns: ns, events: events, watch: watch}
	if err := f.Again(); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// Close ends the subscription.
func (f *Follower) Close() {
	f.events.Close()
	f.watch.Close()
}

// Again reads the complete state.
func (f *Follower) Again() (err error) {
	f.State, err = Read(f.ns)
	return err
}

// batch is the maximum number of events per call of Next.
const batch = 10_000

// Next waits at most a given time for changes and applies them to the state.
func (f *Follower) Next(ctx context.Context, most time.Duration) (c Changes, err error) {
	c = Changes{Routes: map[netip.Prefix]bool{}, Neighbors: map[state.Where]bool{}}
	ready, err := f.events.Wait(ctx, most, f.watch.Descriptors()...)
	if err != nil || !ready {
		return c, err
	}
	filtered, err := f.watch.Changed()
	if err != nil {
		return c, err
	}
	if filtered {
		if c.Anew, err = f.Refilter(); err != nil {
			return c, err
		}
		c.Uncertain = c.Anew
	}
	return c, f.events.Drain(batch, func(e *routing.Event) { f.take(e, &c) })
}

// Refilter reads the packet filters, and reports whether they have changed. Some of them have no
// events.
func (f *Follower) Refilter() (changed bool, err error) {
	now, err := Filters(f.ns, f.State)
	have := slices.DeleteFunc(slices.Clone(f.State.Filters), func(f state.Filter) bool { return f.Undelivered })
	if err != nil || slices.Equal(now, have) {
		return false, err
	}
	f.State.Filters = now
	return true, nil
}

func (f *Follower) take(e *routing.Event, c *Changes) {
	switch e.Kind {
	case routing.Lost, routing.RuleEvent, routing.SettingEvent, routing.ObjectEvent:
		c.Anew, c.Uncertain = true, true
		return
	case routing.RouteEvent:
		if e.Cloned {
			return
		}
		c.Routes[e.Route.To] = true
	case routing.NeighborEvent:
		at := state.Where{Link: e.Neighbor.Link, At: e.Neighbor.At}
		before, there := f.State.Neighbors[at]
		if put(f.State, e); there && f.State.Neighbors[at] == before {
			return
		}
		c.Neighbors[at] = true
		return
	case routing.LinkEvent:
		before := f.State.Links[e.Link.Index]
		put(f.State, e)
		if after := f.State.Links[e.Link.Index]; after != before {
			c.Links, c.Anew = true, true // IPv4 routes of a link that goes down disappear without events
		}
		return
	case routing.AddressEvent:
		c.Anew, c.Uncertain = true, c.Uncertain || e.Gone // so do routes with that source
	}
	put(f.State, e)
}

// Confirm makes the kernel verify neighbours, as for its own packets.
func (f *Follower) Confirm(all []state.Where) error {
	return routing.Use(f.ns, func(yield func(link int, at netip.Addr) bool) {
		for _, w := range all {
			if !yield(w.Link, w.At) {
				return
			}
		}
	})
}
