// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"errors"
	"fmt"
	"slices"

	"weir/internal/fault"
	"weir/internal/room"
)

// takers are the planes of the rooms that replace devices' trees in one of some states.
func (e *Engine) takers() map[string]room.Taker {
	all := map[string]room.Taker{}
	for _, r := range e.Rooms {
		if t, is := e.plane(r).(room.Taker); is {
			all[r.Name()] = t
		}
	}
	return all
}

// takes is which room replaces the tree of each device in a state. Two that would are refused.
func (e *Engine) takes(s *state) (by map[string]string, err error) {
	by, takers := map[string]string{}, e.takers()
	for _, r := range e.Rooms {
		t, is := takers[r.Name()]
		if !is {
			continue
		}
		devices := t.Takes(s.of(r))
		slices.Sort(devices)
		for _, dev := range slices.Compact(devices) {
			if other, taken := by[dev]; taken {
				err = errors.Join(err, fault.New(fault.Usage, "leave one of them out, or give it another device",
					"%s: both %s and %s of this policy replace its queues", dev, other, r.Name()))
				continue
			}
			by[dev] = r.Name()
		}
	}
	return by, err
}

// yield has rooms give back the devices that another room takes in the next state. It returns the
// rooms that did, or began to.
func (e *Engine) yield(have, next *state) (yielded map[string]bool, err error) {
	before, _ := e.takes(have)
	after, err := e.takes(next)
	if err != nil {
		return nil, err
	}
	yielded = map[string]bool{}
	for dev, name := range before {
		if now, taken := after[dev]; taken && now != name {
			yielded[name] = true
		}
	}
	takers := e.takers()
	for _, r := range slices.Backward(e.Rooms) {
		if !yielded[r.Name()] {
			continue
		}
		if err := takers[r.Name()].Yield(next.of(r)); err != nil {
			return yielded, fmt.Errorf("%s gives devices back: %w", r.Name(), err)
		}
	}
	return yielded, nil
}
