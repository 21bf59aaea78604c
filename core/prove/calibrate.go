// SPDX-License-Identifier: Apache-2.0

package prove

import (
	"context"
	"fmt"
	"time"

	"weir/core/module"
	"weir/internal/direction"
	"weir/internal/fault"
	"weir/internal/units"
)

// way identifies a calibration: all tests with the same path and direction share it.
type way struct {
	path      module.Path
	direction direction.Direction
	near      bool
	detour    bool
	namespace string // of the remote peer's client, if not this one
}

func (r *runner) wayOf(t Test) way {
	w := way{path: t.Path, direction: t.Check.Direction}
	if r.o.Peer != nil {
		w.namespace = t.inside.Namespace
		return w
	}
	w.near, w.detour = t.inside.Remote.IsValid() || t.inside.Namespace != "", t.inside.Device != ""
	return w
}

// capacities calibrates the paths of tests with rates, and skips promises beyond their capacity.
func (r *runner) capacities(ctx context.Context, all []measured) error {
	highest := map[way]Test{}
	for _, t := range r.tests {
		if w := r.wayOf(t); t.Skip == "" && t.Check.Needs > highest[w].Check.Needs {
			highest[w] = t
		}
	}
	for i, t := range r.tests {
		w := r.wayOf(t)
		top, wanted := highest[w]
		if !wanted {
			continue
		}
		delete(highest, w)
		r.report(fmt.Sprintf("calibrate %s, %s", t.Path, t.Check.Direction))
		carried, unknown, err := r.calibrate(ctx, w, top)
		if err != nil {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			if fault.Of(err) == fault.Testbed && r.o.Peer != nil {
				return err // no peer answers
			}
			unknown = err.Error()
		}
		for j := i; j < len(r.tests); j++ {
			if other := r.tests[j]; other.Skip == "" && other.Check.Needs > 0 && r.wayOf(other) == w {
				r.bound(&all[j], other, carried, unknown)
			}
		}
	}
	return nil
}

// bound records the capacity of the path of a test.
func (r *runner) bound(m *measured, t Test, carried module.Sample, unknown string) {
	capacity := units.BitRate(carried.Received)
	m.c.Capacity, m.c.Unknown, m.c.Losses = capacity, unknown, module.LossesOf([]module.Sample{carried})
	if unknown == "" && capacity < t.Check.Needs {
		m.skip, m.reason = CannotSay, fmt.Sprintf("the path carries %s outside of all scopes, and the promise is %s", capacity, t.Check.Promised())
		r.left -= time.Duration(r.o.repetitions(t)) * r.o.took(t)
	}
}

// calibrate measures the capacity of a path outside all scopes, for its most demanding test.
func (r *runner) calibrate(ctx context.Context, w way, highest Test) (carried module.Sample, unknown string, err error) {
	at, device, namespace := r.outside(w.near, w.path.IPv6), "", ownNamespace
	switch {
	case r.o.Peer != nil:
		at.peer = *r.o.Peer
		device, _ = deviceTo(at.peer.Target.Addr()) // without a device, no interface scope is on the path
		if w.namespace != "" {
			namespace = w.namespace
		}
	case w.near:
		namespace = ""
	case w.detour:
		// The same path through a device without a scope.
		d, err := r.bed.through(r.bed.device)
		if err != nil {
			return carried, "", err
		}
		at.peer = r.bed.peerAt(d.link.there[family(w.path.IPv6)].Addr())
	}
	if why := r.in.uncovered(w.direction, at.peer.Target.Addr(), device, namespace); why != "" {
		return carried, why, nil
	}
	f := flowOf(highest)
	f.Congestion = r.congestionOf(highest)
	carried, err = r.measure(ctx, at, f, nil, highest.probing(), 200*time.Millisecond, min(r.o.Duration, time.Second))
	return carried, "", err
}
