// SPDX-License-Identifier: Apache-2.0

package limit

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"github.com/cilium/ebpf"

	"weir/core/match"
	"weir/core/module"
	"weir/internal/direction"
	"weir/kernel/cgroup"
	"weir/kernel/netns"
	"weir/kernel/probe"
	"weir/modules/limit/police"
)

// policer applies states to the pinned data plane of package police.
type policer struct{ host module.Host }

// Ready returns an error if the host has no bpf file system, if an exclusive program of another
// owner keeps the programs off, or if programs of another Weir are attached without pins: both
// would charge the same packets.
func (p *policer) Ready(want module.State) error {
	if err := police.CanPin(p.host.Pins); err != nil {
		return err
	}
	hooks := []ebpf.AttachType{ebpf.AttachCGroupInetEgress, ebpf.AttachCGroupSockOps}
	if limitsIngress(want) {
		hooks = append(hooks, ebpf.AttachCGroupInetIngress)
	}
	if err := cgroup.Attachable(p.host.CgroupRoot, hooks...); err != nil {
		return err
	}
	if police.AttachmentsPinned(p.host.Pins) {
		return nil
	}
	return police.NoStrays(p.host.CgroupRoot)
}

// InPlace reports whether the programs are attached and scopes are assigned.
func (p *policer) InPlace(module.State) (bool, error) {
	if attached, err := police.Attached(p.host.Pins); err != nil || !attached {
		return false, err
	}
	opened, err := police.LoadPinned(p.host.Pins)
	if err != nil {
		return false, err
	}
	defer func() { _ = opened.Close() }()
	return opened.Active(), nil
}

// Apply changes the data plane from one state to another. Entries common to both stay untouched,
// except in a data plane without assignments: all entries are written, and the last step activates
// them.
func (p *policer) Apply(have, want module.State) (notes []string, err error) {
	plane, fresh, err := p.open(module.CapacityFor(want))
	if err != nil {
		return nil, err
	}
	defer func() { _ = plane.Close() }()
	if err := match.Sweep(p.host.Pins, plane.Cgroups(), have.Assignments(), want.Assignments()); err != nil {
		return nil, err
	}
	if err := update(plane, have, want); err != nil {
		return nil, err
	}
	notes = p.rebind(plane, want)
	if len(want.Places()) > 0 || hasCgroups(want) {
		if err := plane.AttachAccept(); err != nil {
			return nil, err
		}
	}
	if err := plane.EndIngress(); err != nil {
		return nil, err
	}
	if !fresh && (limitsIngress(have) || !limitsIngress(want)) {
		return notes, nil
	}
	err = probe.OpenSockets()
	if err == nil {
		few := &netns.Few{Most: maxForeign}
		err = p.host.Namespaces(few.Of(plane.Adopt))
		notes = append(notes, skippedNamespaces(few)...)
	}
	if err != nil {
		notes = append(notes, "connections that were open are limited but not paced: "+err.Error())
	}
	return notes, nil
}

// hasCgroups reports whether a scope matches by cgroup.
func hasCgroups(s module.State) bool {
	return slices.ContainsFunc(s.Scopes, func(b module.Bound) bool { return b.Binding.Kind == match.Cgroup })
}

// maxForeign bounds the network namespaces of other user namespaces in which open sockets are
// adopted. Any user can create thousands, and each takes milliseconds.
const maxForeign = 64

// skippedNamespaces reports the network namespaces beyond maxForeign.
func skippedNamespaces(few *netns.Few) []string {
	if few.Left == 0 {
		return nil
	}
	return []string{fmt.Sprintf("connections open in %d network namespaces of other user namespaces are limited but not paced: the maximum is %d namespaces", few.Left, maxForeign)}
}

// limitsIngress reports whether a scope of the state limits ingress, which needs one more sockops
// callback.
func limitsIngress(s module.State) bool {
	return slices.ContainsFunc(s.Scopes, func(b module.Bound) bool { return treatmentOf(b.Scope).of(Ingress) != nil })
}

// assignments maps keys to scopes. It leaves out groups and scopes without a current binding.
type assignments struct{ match.Assignments }

func (a *assignments) add(b module.Bound) {
	if b.Binding.Kind == "" || b.Binding.Missing != "" {
		return
	}
	for _, key := range b.Binding.Keys() {
		a.assign(key, b.Index)
	}
}

func (a *assignments) assign(key match.Key, index int) {
	if a.Assignments == nil {
		a.Assignments = match.Assignments{}
	}
	a.Assignments[key] = index
}

// update changes limits, tree and assignments from one state to another.
func update(plane *police.DataPlane, have, want module.State) error {
	had, stays := have.ByIndex(), want.ByIndex()
	holders := map[any]module.Bound{} // the last scope of equal bindings wins
	for _, b := range want.Scopes {
		holders[b.Binding] = b
	}
	var gone, now assignments
	for _, b := range have.Scopes {
		after, kept := stays[b.Index]
		if kept && after.Binding == b.Binding {
			continue
		}
		if other, held := holders[b.Binding]; held {
			now.add(other)
		} else {
			gone.add(b)
		}
		if kept {
			continue
		}
		if err := errors.Join(plane.Clear(b.Index, Egress), plane.Clear(b.Index, Ingress)); err != nil {
			return err
		}
	}
	for _, b := range want.Scopes {
		before, there := had[b.Index]
		// A grown data plane has the rates of shared limits without their leases.
		if there && before.Same(b) && plane.Active() && !(plane.Grown() && follows(b)) {
			set, err := isSet(plane, b)
			if err != nil {
				return err
			}
			if set {
				continue
			}
		}
		if !there { // counters and state of the number's former scope
			if err := plane.Forget(b.Index); err != nil {
				return err
			}
		}
		if err := set(plane, b); err != nil {
			return fmt.Errorf("scope %s: %w", b.Name, err)
		}
		now.add(b)
	}
	all := want.Assignments()
	for key := range gone.Assignments { // a scope of several cgroups may share one with another scope
		if index, held := all[key]; held {
			now.assign(key, index)
		}
	}
	if err := arrange(plane, have, want); err != nil {
		return err
	}
	if len(want.Places()) > 0 {
		plane.ExpectCgroups()
	}
	return plane.Reassign(gone.Assignments, now.Assignments)
}

// isSet reports whether the data plane has the limits of a scope that may have been shaped before.
func isSet(plane *police.DataPlane, b module.Bound) (bool, error) {
	for _, d := range direction.Both {
		if l := treatmentOf(b.Scope).of(d); l != nil && l.Mode != "" {
			if there, err := plane.Limited(b.Index, d); err != nil || !there {
				return false, err
			}
		}
	}
	return true, nil
}

// set writes the limits of one scope.
func set(plane *police.DataPlane, b module.Bound) error {
	t := treatmentOf(b.Scope)
	for _, d := range direction.Both {
		var err error
		if t.of(d) == nil {
			err = plane.Clear(b.Index, d)
		} else {
			err = plane.Set(b.Index, d, t.limit(d, b.Shadow))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// arrange changes the tree of scopes from one state to another, parents before their children.
func arrange(plane *police.DataPlane, have, want module.State) error {
	stays, named := want.ByIndex(), want.ByName()
	for _, b := range have.Scopes {
		if now, kept := stays[b.Index]; b.Parent == "" || kept && now.Parent != "" {
			continue
		}
		if err := plane.ClearParent(b.Index); err != nil {
			return err
		}
	}
	depth := func(b module.Bound) (n int) {
		for ; b.Parent != ""; b = named[b.Parent] {
			n++
		}
		return n
	}
	var children []module.Bound
	for _, b := range want.Scopes {
		if _, limited := named[b.Parent]; limited {
			children = append(children, b)
		}
	}
	slices.SortStableFunc(children, func(a, b module.Bound) int { return depth(a) - depth(b) })
	for _, b := range children {
		if err := plane.SetParent(b.Index, named[b.Parent].Index); err != nil {
			return fmt.Errorf("scope %s: %w", b.Name, err)
		}
	}
	return nil
}

// open opens the pinned data plane and grows it to the given number of scopes. If there is none, it
// loads, attaches and pins one, and returns fresh.
func (p *policer) open(scopes int) (opened *police.DataPlane, fresh bool, err error) {
	in, err := police.Attached(p.host.Pins)
	if err == nil && in {
		if opened, err = police.LoadPinned(p.host.Pins); err != nil {
			return nil, false, err
		}
		opened.AttachedTo(p.host.CgroupRoot)
		if opened.Scopes() >= scopes {
			return opened, false, nil
		}
		defer func(small *police.DataPlane) { _ = small.Close() }(opened)
		opened, err = opened.Grow(scopes)
		return opened, false, err
	}
	// Pins without attachments: a crash between two pins, a removed cgroup, or a manual detach.
	// Sockets may still be paced.
	if _, err := p.Release(); err != nil {
		return nil, false, err
	}
	if opened, err = police.Load(scopes); err != nil {
		return nil, false, err
	}
	if err := opened.Attach(p.host.CgroupRoot); err != nil {
		_ = opened.Close()
		return nil, false, err
	}
	if err := opened.Pin(p.host.Pins); err != nil {
		_ = opened.Close()
		return nil, false, err
	}
	return opened, true, nil
}

// Follow adopts the open sockets of a network namespace that appeared after the data plane was
// attached.
func (p *policer) Follow(ns *netns.Namespace) error {
	opened, err := police.LoadPinned(p.host.Pins)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer func() { _ = opened.Close() }()
	return new(netns.Few).Of(opened.Adopt)(ns)
}

// Release removes all pins, complete or not, and restores the pacing rates of open sockets. The
// programs that do so are unpinned last, so that a later Release can finish after a crash.
func (p *policer) Release() (released bool, err error) {
	opened, err := police.LoadForRelease(p.host.Pins)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, err
	}
	if err == nil {
		released = true
		defer func() { _ = opened.Close() }()
		if err := police.Detach(p.host.Pins); err != nil {
			return false, err
		}
		// All namespaces, without maxForeign: a socket left out would stay paced.
		if err := p.host.Namespaces(opened.Free); err != nil && !errors.Is(err, police.ErrNoIterator) {
			return false, err
		}
	}
	if err := police.Unpin(p.host.Pins); err != nil {
		return released, err
	}
	return released, police.NoStrays(p.host.CgroupRoot)
}

// rebind attaches the program that binds re-created cgroups. Without kernel support the daemon
// binds them, some milliseconds later.
func (p *policer) rebind(plane *police.DataPlane, want module.State) (notes []string) {
	err := match.Rebind(p.host.Pins, plane.Cgroups(), want.Places())
	if err == nil || errors.Is(err, ebpf.ErrNotSupported) {
		return nil
	}
	return []string{"re-created cgroups are limited only after the daemon binds them: " + err.Error()}
}

// Holds reports whether traffic of a key belongs to the scope.
func (p *policer) Holds(scope int, key match.Key) (bool, error) {
	opened, err := police.LoadPinned(p.host.Pins)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer func() { _ = opened.Close() }()
	return match.Holds(opened.Cgroups(), key, scope)
}
