// SPDX-License-Identifier: Apache-2.0

package limit

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"weir/core/match"
	"weir/core/module"
	"weir/core/policy"
	"weir/internal/direction"
	"weir/kernel/device"
	"weir/modules/limit/police"
	"weir/modules/limit/shape"
)

/*
 * Received packets are shaped by a redirection to an ifb, after which neither tc filters nor
 * nftables chains at the ingress hook see them. Weir never bypasses filters of others: on a device
 * with such filters the direction is policed instead, by programs at the receiving sockets.
 *
 *   wire -> packet sockets -> TCX: redirection | tc filters -> nftables ingress -> stack -> policer
 */

// filtered is a direction that is policed because its device has filters of others.
type filtered struct {
	scope     string
	direction Direction
	device    string
	filters   []string
}

// String describes the direction for plan, apply and status.
func (f filtered) String() string {
	const named = 3
	text := strings.Join(f.filters[:min(named, len(f.filters))], ", ")
	if more := len(f.filters) - named; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return fmt.Sprintf("%s: %s is policed instead of shaped, since shaping would bypass the filters of others at the ingress of %s (%s): remove them to shape it; packets that they redirect are limited only if a local socket receives them",
		f.scope, f.direction, f.device, text)
}

// filteredDirections returns the shaped directions of a state that pass filters of others at the
// ingress of a device: the ingress of an interface, and the egress of a network namespace, which
// enters at the local ends of its veth pairs.
func filteredDirections(h shape.Host, s module.State) (all []filtered, err error) {
	type place struct{ scope, device string }
	var places []place
	var devices []string
	var ends []shape.Shaper
	if slices.ContainsFunc(s.Scopes, func(b module.Bound) bool { return b.Selector.Kind == kindNetns && shaped(b.Scope, Egress) }) {
		if ends, err = h.AtDevices(shapedState(s)); err != nil {
			return nil, nil // Ready and Apply return the same error
		}
	}
	for _, b := range s.Scopes {
		switch kind := b.Selector.Kind; {
		case kind == kindInterface && shaped(b.Scope, Ingress):
			places = append(places, place{b.Name, b.Selector.Text})
		case kind == kindNetns && shaped(b.Scope, Egress):
			own, _ := shaperOf(b, Egress, nil)
			for _, end := range ends {
				if end.From == own.Namespace && end.Direction == Ingress {
					places = append(places, place{b.Name, end.Device})
				}
			}
		}
	}
	for _, at := range places {
		devices = append(devices, at.device)
	}
	slices.Sort(devices)
	found, err := device.IngressFilters(nil, slices.Compact(devices), h.Devices)
	if err != nil {
		return nil, err
	}
	named := s.ByName()
	for _, at := range places {
		if filters := found[at.device]; len(filters) > 0 {
			d := Ingress
			if named[at.scope].Selector.Kind == kindNetns {
				d = Egress
			}
			all = append(all, filtered{at.scope, d, at.device, filters})
		}
	}
	return all, nil
}

// avoidFilters returns the state with its filtered directions policed, and those directions. All
// scopes of a tree have the same mode, so the whole tree is policed.
func avoidFilters(h shape.Host, s module.State) (module.State, []filtered, error) {
	all, err := filteredDirections(h, s)
	if err != nil || len(all) == 0 {
		return s, nil, err
	}
	named := s.ByName()
	root := func(b module.Bound) string {
		for {
			above, there := named[b.Parent]
			if !there {
				return b.Name
			}
			b = above
		}
	}
	type tree struct {
		root string
		of   Direction
	}
	trees := map[tree]bool{}
	for _, f := range all {
		trees[tree{root(named[f.scope]), f.direction}] = true
	}
	changed := s
	changed.Scopes = slices.Clone(s.Scopes)
	for i, b := range changed.Scopes {
		for _, d := range direction.Both {
			if shaped(b.Scope, d) && trees[tree{root(b), d}] {
				b.Scope = policedScope(b.Scope, d)
				b.Treatment = b.Treatments[moduleName]
			}
		}
		changed.Scopes[i] = b
	}
	return changed, all, nil
}

// policedScope returns a scope with one direction policed.
func policedScope(s policy.Scope, d Direction) policy.Scope {
	t := *treatmentOf(s)
	l := *t.of(d)
	l.Mode = police.ModePolice
	t.set(d, &l)
	s.Treatments = maps.Clone(s.Treatments)
	s.Treatments[moduleName] = &t
	return s
}

// onThisHost returns a scope as this host limits it: policed where it avoids filters. It is for
// descriptions; the plane uses avoidFilters.
func onThisHost(s policy.Scope) policy.Scope {
	if !shaped(s, Ingress) && !(s.Selector.Kind == kindNetns && shaped(s, Egress)) {
		return s
	}
	all, _, err := avoidFilters(shape.Host{}, module.State{Scopes: []module.Bound{{Scope: s, Treatment: s.Treatments[moduleName]}}})
	if err != nil {
		return s
	}
	return all.Scopes[0].Scope
}

// active returns the state as it was applied: a direction with a limit in the policer is policed.
func (p *plane) active(s module.State) (module.State, error) {
	if !slices.ContainsFunc(s.Scopes, mayFallBack) || !police.AttachmentsPinned(p.police.host.Pins) {
		return s, nil
	}
	opened, err := police.LoadPinned(p.police.host.Pins)
	if err != nil {
		return s, err
	}
	defer func() { _ = opened.Close() }()
	applied := s
	applied.Scopes = slices.Clone(s.Scopes)
	for i, b := range applied.Scopes {
		for _, d := range direction.Both {
			if !mayFallBack(b) || !shaped(b.Scope, d) {
				continue
			}
			limited, err := opened.Limited(b.Index, d)
			if err != nil {
				return s, err
			}
			if limited {
				b.Scope = policedScope(b.Scope, d)
				b.Treatment = b.Treatments[moduleName]
			}
		}
		applied.Scopes[i] = b
	}
	return applied, nil
}

// mayFallBack reports whether a scope may be policed instead of shaped: received packets of a
// device, or a tree that has some.
func mayFallBack(b module.Bound) bool {
	kind := b.Selector.Kind
	return (shaped(b.Scope, Egress) || shaped(b.Scope, Ingress)) &&
		(kind == kindInterface || kind == kindNetns || kind == policy.Group || b.Parent != "" || b.Binding.Kind == match.Interface)
}
