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
	by      map[string]string          // owner by device
	shared  map[string]map[string]bool // by module, the devices with a shared tree
	claimed map[string]map[string]bool // by module, the devices that others claim (module.State)
}

// claims returns the devices that other modules than each one claim, and whether these can host its
// packets.
func (e *Engine) claims(s *state, owners map[string]module.QdiscOwner) map[string]map[string]bool {
	all := map[string]map[string]bool{}
	for claimant, t := range owners {
		part := e.part(s, claimant)
		if part.Empty() {
			continue
		}
		devices := t.QdiscDevices(part)
		hosts := len(devices) > 0 && t.CanHost() == nil
		for other := range owners {
			if other == claimant {
				continue
			}
			if all[other] == nil {
				all[other] = map[string]bool{}
			}
			for _, dev := range devices {
				all[other][dev] = hosts
			}
		}
	}
	return all
}

// qdiscOwners returns the owner of each device in a state. Two owners of a device are an error
// unless the packets of one can wait in the tree of the other.
func (e *Engine) ownersOf(s *state) (all qdiscOwners, err error) {
	owners := e.owners()
	all = qdiscOwners{map[string]string{}, map[string]map[string]bool{}, e.claims(s, owners)}
	for _, r := range e.Modules {
		t, is := owners[r.Name()]
		if !is {
			continue
		}
		devices := t.QdiscDevices(all.of(s, r))
		slices.Sort(devices)
		for _, dev := range slices.Compact(devices) {
			other, twice := all.by[dev]
			if !twice {
				all.by[dev] = r.Name()
				continue
			}
			owner, nested, refused := e.share(s, all, dev, other, r.Name())
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
func (e *Engine) share(s *state, all qdiscOwners, dev, one, other string) (owner, nested string, err error) {
	owners := e.owners()
	for _, pair := range [][2]string{{one, other}, {other, one}} {
		host, guest := owners[pair[0]], owners[pair[1]]
		switch err = errors.Join(guest.CanNest(all.part(e, s, pair[1]), dev), host.CanHost()); {
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

// of returns a module's part of a state with its shared devices and those that others claim.
func (t qdiscOwners) of(s *state, r module.Module) module.State {
	part := s.of(r)
	part.Shared, part.Claimed = t.shared[r.Name()], t.claimed[r.Name()]
	return part
}

// part returns a module's part like of, by name.
func (t qdiscOwners) part(e *Engine, s *state, name string) module.State {
	part := e.part(s, name)
	part.Shared, part.Claimed = t.shared[name], t.claimed[name]
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
