// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"errors"
	"fmt"
	"slices"

	"weir/core/module"
	"weir/internal/fault"
)

// takers are the planes of the rooms that replace devices' trees in one of some states.
func (e *Engine) takers() map[string]module.QdiscOwner {
	all := map[string]module.QdiscOwner{}
	for _, r := range e.Modules {
		if t, is := e.Plane(r).(module.QdiscOwner); is {
			all[r.Name()] = t
		}
	}
	return all
}

// taken is who has the devices' trees in a state.
type taken struct {
	by     map[string]string          // the room that replaces the tree of each device
	shared map[string]map[string]bool // by room, the devices at which one waits in the tree of the other
}

// takes is which room replaces the tree of each device in a state. Two that would are refused,
// unless the packets of one can wait in the other's tree.
func (e *Engine) takes(s *state) (all taken, err error) {
	all = taken{map[string]string{}, map[string]map[string]bool{}}
	takers := e.takers()
	for _, r := range e.Modules {
		t, is := takers[r.Name()]
		if !is {
			continue
		}
		devices := t.QdiscDevices(s.of(r))
		slices.Sort(devices)
		for _, dev := range slices.Compact(devices) {
			other, twice := all.by[dev]
			if !twice {
				all.by[dev] = r.Name()
				continue
			}
			owner, nested, refused := e.share(s, dev, other, r.Name())
			if refused != nil {
				err = errors.Join(err, refused)
				continue
			}
			all.by[dev] = owner
			for _, name := range []string{owner, nested} {
				if all.shared[name] == nil {
					all.shared[name] = map[string]bool{}
				}
				all.shared[name][dev] = true
			}
		}
	}
	return all, err
}

// share says which of two rooms that take a device has its tree, in which the packets of the other
// one wait too. The error says why neither can.
func (e *Engine) share(s *state, dev, one, other string) (owner, nested string, err error) {
	takers := e.takers()
	for _, pair := range [][2]string{{one, other}, {other, one}} {
		host, guest := takers[pair[0]], takers[pair[1]]
		switch err = errors.Join(guest.CanNest(e.part(s, pair[1]), dev), host.CanHost()); {
		case err == nil:
			return pair[0], pair[1], nil
		case !errors.Is(err, module.ErrNotShared):
			return "", "", fmt.Errorf("%s: both %s and %s of this policy replace its queues: %w", dev, one, other, err)
		}
	}
	return "", "", fault.New(fault.Usage, "leave one of them out, or give it another device",
		"%s: both %s and %s of this policy replace its queues", dev, one, other)
}

// part is a room's part of a state, by its name.
func (e *Engine) part(s *state, name string) module.State {
	for _, r := range e.Modules {
		if r.Name() == name {
			return s.of(r)
		}
	}
	return module.State{}
}

// of is a room's part of a state, with the devices that it shares.
func (t taken) of(s *state, r module.Module) module.State {
	part := s.of(r)
	part.Shared = t.shared[r.Name()]
	return part
}

// yield has rooms give back the devices that another room takes in the next state. It returns the
// rooms that did, or began to.
func (e *Engine) yield(s step) (yielded map[string]bool, err error) {
	yielded = map[string]bool{}
	for dev, name := range s.before.by {
		if now, taken := s.after.by[dev]; taken && now != name {
			yielded[name] = true
		}
	}
	takers := e.takers()
	for _, r := range slices.Backward(e.Modules) {
		if !yielded[r.Name()] {
			continue
		}
		if err := takers[r.Name()].Yield(s.after.of(s.next, r)); err != nil {
			return yielded, fmt.Errorf("%s gives devices back: %w", r.Name(), err)
		}
	}
	return yielded, nil
}
