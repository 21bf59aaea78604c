// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"errors"
	"fmt"
	"slices"

	"weir/core/module"
	"weir/internal/fault"
)

// owners returns the planes of the modules that replace qdisc trees, by module.
func (e *Engine) owners() map[string]module.QdiscOwner {
	all := map[string]module.QdiscOwner{}
	for _, r := range e.Modules {
		if t, is := e.Plane(r).(module.QdiscOwner); is {
			all[r.Name()] = t
		}
	}
	return all
}

// qdiscOwners maps each device to the module that owns its qdisc tree.
type qdiscOwners struct {
	by     map[string]string          // owner by device
	shared map[string]map[string]bool // by module, the devices with a shared tree
}

// qdiscOwners returns the owner of each device in a state. Two owners of a device are an error
// unless the packets of one can wait in the tree of the other.
func (e *Engine) ownersOf(s *state) (all qdiscOwners, err error) {
	all = qdiscOwners{map[string]string{}, map[string]map[string]bool{}}
	owners := e.owners()
	for _, r := range e.Modules {
		t, is := owners[r.Name()]
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

// share selects the owner of a device that two modules claim; the packets of the guest wait in its
// tree. The error is the reason why neither can host the other.
func (e *Engine) share(s *state, dev, one, other string) (owner, nested string, err error) {
	owners := e.owners()
	for _, pair := range [][2]string{{one, other}, {other, one}} {
		host, guest := owners[pair[0]], owners[pair[1]]
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

// part returns a module's part of a state, by name.
func (e *Engine) part(s *state, name string) module.State {
	for _, r := range e.Modules {
		if r.Name() == name {
			return s.of(r)
		}
	}
	return module.State{}
}

// of returns a module's part of a state with its shared devices.
func (t qdiscOwners) of(s *state, r module.Module) module.State {
	part := s.of(r)
	part.Shared = t.shared[r.Name()]
	return part
}

// yield makes modules give up devices that another module owns in the next state. It returns the
// modules that did so, or started to.
func (e *Engine) yield(s step) (yielded map[string]bool, err error) {
	yielded = map[string]bool{}
	for dev, name := range s.before.by {
		if now, owned := s.after.by[dev]; owned && now != name {
			yielded[name] = true
		}
	}
	owners := e.owners()
	for _, r := range slices.Backward(e.Modules) {
		if !yielded[r.Name()] {
			continue
		}
		if err := owners[r.Name()].Yield(s.after.of(s.next, r)); err != nil {
			return yielded, fmt.Errorf("%s gives up devices: %w", r.Name(), err)
		}
	}
	return yielded, nil
}
