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
	"weir/kernel/bpffs"
	"weir/kernel/netns"
	"weir/kernel/probe"
)

// hostPlane is the data plane that the spine leads, pinned.
type hostPlane struct{ host module.Host }

// Ready refuses a host without a bpf file system, and one that somebody else's limits are in force
// on: both would charge the same packets.
func (p *hostPlane) Ready(module.State) error {
	if err := CanPin(p.host.Pins); err != nil {
		return err
	}
	if attachmentsPinned(p.host.Pins) {
		return nil
	}
	return noStrays(p.host.CgroupRoot)
}

// InPlace says whether the programs are attached, with all that they need, and filled.
func (p *hostPlane) InPlace(module.State) (bool, error) {
	if attached, err := Attached(p.host.Pins); err != nil || !attached {
		return false, err
	}
	opened, err := LoadPinned(p.host.Pins)
	if err != nil {
		return false, err
	}
	defer func() { _ = opened.Close() }()
	return opened.Active(), nil
}

// Apply leads the data plane from one state to another. What is the same in both states is left
// alone, unless the data plane has never been filled: then everything is set, and nothing takes
// effect before the end.
func (p *hostPlane) Apply(have, want module.State) (notes []string, err error) {
	plane, fresh, err := p.open(module.CapacityFor(want))
	if err != nil {
		return nil, err
	}
	defer func() { _ = plane.Close() }()
	if err := match.Sweep(p.host.Pins, plane.objects.ScopeCgroups, have.Assignments(), want.Assignments()); err != nil {
		return nil, err
	}
	if err := bring(plane, have, want); err != nil {
		return nil, err
	}
	notes = p.rebind(plane, want)
	if err := plane.EndIngress(); err != nil {
		return nil, err
	}
	if !fresh && (limitsIngress(have) || !limitsIngress(want)) {
		return notes, nil
	}
	err = probe.OpenSockets()
	if err == nil {
		few := &netns.Few{Most: mostForeign}
		err = p.host.Namespaces(few.Of(plane.Adopt))
		notes = append(notes, leftOut(few)...)
	}
	if err != nil {
		notes = append(notes, "connections that were open are limited but not paced: "+err.Error())
	}
	return notes, nil
}

// mostForeign is how many network namespaces of other user namespaces are visited for connections
// that were open: more than a host has rootless containers as a rule. Any user may make thousands,
// and a visit takes milliseconds.
const mostForeign = 64

// leftOut says how many network namespaces were not visited.
func leftOut(few *netns.Few) []string {
	if few.Left == 0 {
		return nil
	}
	return []string{fmt.Sprintf("connections that were open in %d network namespaces of other user namespaces are limited but not paced: there are too many of these", few.Left)}
}

// limitsIngress says whether a scope of a state has a limit of ingress, for which sockets have a
// callback more.
func limitsIngress(s module.State) bool {
	return slices.ContainsFunc(s.Scopes, func(b module.Bound) bool { return treatmentOf(b.Scope).of(Ingress) != nil })
}

// bring leads limits, tree and assignments from one state to another.
func bring(plane *DataPlane, have, want module.State) error {
	had, stays := have.ByIndex(), want.ByIndex()
	holders := map[any]module.Bound{} // of two that stand for the same the later one counts
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
		if there && before.Same(b) && plane.Active() {
			continue
		}
		if !there { // what a scope has left whose number this was
			if err := plane.forget(b.Index); err != nil {
				return err
			}
		}
		if err := put(plane, b); err != nil {
			return fmt.Errorf("scope %s: %w", b.Name, err)
		}
		now.add(b)
	}
	if err := arrange(plane, have, want); err != nil {
		return err
	}
	if len(want.Places()) > 0 {
		plane.settings.Kinds |= match.Cgroups // of those that are to come too
	}
	return plane.Reassign(gone.Assignments, now.Assignments)
}

// put puts one scope's limits into the data plane.
func put(plane *DataPlane, b module.Bound) error {
	t := treatmentOf(b.Scope)
	for _, d := range Directions {
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

// arrange leads the data plane's tree of scopes from one state to another, parents before their
// children. Where no scope has a parent it does nothing.
func arrange(plane *DataPlane, have, want module.State) error {
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

// open opens the pinned data plane with room for so many scopes, or loads, attaches and pins one;
// fresh says that it was the latter.
func (p *hostPlane) open(scopes int) (opened *DataPlane, fresh bool, err error) {
	in, err := Attached(p.host.Pins)
	if err == nil && in {
		if opened, err = LoadPinned(p.host.Pins); err != nil {
			return nil, false, err
		}
		opened.AttachedTo(p.host.CgroupRoot)
		if opened.scopes >= scopes {
			return opened, false, nil
		}
		defer func(small *DataPlane) { _ = small.Close() }(opened)
		opened, err = opened.grow(scopes)
		return opened, false, err
	}
	// What a crash between two pins has left, or a cgroup that was removed, or a hand, is of no
	// use, but sockets that it has paced are.
	if _, err := p.end(); err != nil {
		return nil, false, err
	}
	if opened, err = Load(scopes); err != nil {
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

// Follow has the open sockets of a network namespace paced that was in nobody's sight when the data
// plane was attached.
func (p *hostPlane) Follow(ns *netns.Namespace) error {
	opened, err := LoadPinned(p.host.Pins)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer func() { _ = opened.Close() }()
	return new(netns.Few).Of(opened.Adopt)(ns)
}

// Release ends all limits and gives open sockets the pace back that they had.
func (p *hostPlane) Release() (released bool, err error) { return p.end() }

// end ends what is pinned, or what is left of it. The programs that set sockets free are unpinned
// last, so that whoever comes after a crash can do it.
func (p *hostPlane) end() (released bool, err error) {
	opened, err := LoadForRelease(p.host.Pins)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, err
	}
	if err == nil {
		released = true
		defer func() { _ = opened.Close() }()
		if err := Detach(p.host.Pins); err != nil {
			return false, err
		}
		// Foreign ones too: whoever is paced there would be for good.
		if err := p.host.Namespaces(opened.Free); err != nil && !errors.Is(err, ErrNoIterator) {
			return false, err
		}
	}
	if err := Unpin(p.host.Pins); err != nil {
		return released, err
	}
	return released, noStrays(p.host.CgroupRoot)
}

// noStrays says that limits are in force of which no pin is here.
func noStrays(root string) error {
	return bpffs.NoStrays(root, "limits", []ebpf.AttachType{ebpf.AttachCGroupInetEgress, ebpf.AttachCGroupInetIngress, ebpf.AttachCGroupSockOps},
		limitProgLimitEgress, limitProgLimitIngress, limitProgLimitSockops)
}
