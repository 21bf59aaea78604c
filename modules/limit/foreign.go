// SPDX-License-Identifier: Apache-2.0

package limit

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"weir/core/match"
	"weir/core/module"
	"weir/core/policy"
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
	named, trees := s.ByName(), map[tree]bool{}
	for _, f := range all {
		trees[treeOf(named[f.scope], f.direction, named)] = true
	}
	return changeModes(s, func(b module.Bound, d Direction) string {
		if shaped(b.Scope, d) && trees[treeOf(b, d, named)] {
			return police.ModePolice
		}
		return ""
	}), all, nil
}

// onThisHost returns a scope as this host limits it: shaped by default where possible, and policed
// where it avoids filters. It is for descriptions, which are made scope by scope; the plane uses
// settle.
func onThisHost(s policy.Scope) policy.Scope {
	chooses := byDefault(s, Egress) || byDefault(s, Ingress)
	if !chooses && !shaped(s, Ingress) && !(s.Selector.Kind == kindNetns && shaped(s, Egress)) {
		return s
	}
	h := shape.Host{Describes: true}
	state := module.State{Scopes: []module.Bound{{Scope: s, Treatment: s.Treatments[moduleName]}}}
	state, _, _ = chooseModesBy(h, state, recently(h))
	if all, _, err := avoidFilters(h, state); err == nil {
		state = all
	}
	return state.Scopes[0].Scope
}

// described holds the facts of the last description.
var described struct {
	sync.Mutex
	namespace string // of the thread
	at        time.Time
	facts     facts
}

// recently returns the facts of this host, of the last second: descriptions of a policy need them
// once per scope, and they take a read of all devices.
func recently(h shape.Host) facts {
	last := &described
	last.Lock()
	defer last.Unlock()
	namespace, err := os.Readlink("/proc/thread-self/ns/net")
	if err != nil || namespace != last.namespace || time.Since(last.at) > time.Second {
		check := sync.OnceValue(func() error { return h.CheckScopes(func(string) (owned, keeps bool) { return false, false }) })
		last.namespace, last.at = namespace, time.Now()
		last.facts = facts{func(shape.Hosting) error { return check() }, here()}
	}
	return last.facts
}

// active returns the state as it was applied: a direction with a limit in the policer is policed.
func (p *plane) active(s module.State) (_ module.State, err error) {
	if !slices.ContainsFunc(s.Scopes, func(b module.Bound) bool { return mayFallBack(b, Egress) || mayFallBack(b, Ingress) }) {
		return s, nil
	}
	var opened *police.DataPlane
	if police.AttachmentsPinned(p.police.host.Pins) {
		if opened, err = police.LoadPinned(p.police.host.Pins); err != nil {
			return s, err
		}
		defer func() { _ = opened.Close() }()
	}
	s = changeModes(s, func(b module.Bound, d Direction) string {
		if !mayFallBack(b, d) {
			return ""
		}
		if opened != nil {
			limited, unread := opened.Limited(b.Index, d)
			err = errors.Join(err, unread)
			if limited {
				return police.ModePolice
			}
		}
		return police.ModeShape
	})
	return s, err
}

// mayFallBack reports whether a direction may be policed instead of shaped: without a mode, for
// received packets of a device, and in a tree that has some.
func mayFallBack(b module.Bound, d Direction) bool {
	kind := b.Selector.Kind
	return byDefault(b.Scope, d) || shaped(b.Scope, d) &&
		(kind == kindInterface || kind == kindNetns || kind == policy.Group || b.Parent != "" || b.Binding.Kind == match.Interface)
}
