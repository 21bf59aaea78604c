// SPDX-License-Identifier: Apache-2.0

package limit

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"weir/core/match"
	"weir/core/module"
	"weir/core/selector"
	"weir/internal/direction"
	"weir/internal/fault"
	"weir/kernel/netns"
	"weir/modules/limit/police"
	"weir/modules/limit/shape"
)

// plane is the pinned data plane of a host: policed directions in police, shaped ones in shape.
type plane struct {
	police *policer
	shape  shape.Host
}

// Plane returns the pinned data plane of a host.
func (Module) Plane(h module.Host) module.Plane {
	return &plane{&policer{h}, shape.Host{Pins: h.Pins + "-delay", Devices: h.Devices, Files: h.Files, CgroupRoot: h.CgroupRoot, Namespaces: h.Namespaces}}
}

// shaperOf returns the shaper of a scope; false if the direction is not shaped, or its interface
// does not exist.
func shaperOf(b module.Bound, d Direction, named map[string]module.Bound) (shape.Shaper, bool) {
	if !shaped(b.Scope, d) {
		return shape.Shaper{}, false
	}
	s := Shaper(*treatmentOf(b.Scope).of(d), d)
	if above, there := named[b.Parent]; there {
		if parent, in := shaperOf(above, d, named); in {
			s.Parent = parent.Key()
		}
	}
	s.Index = b.Index
	if b.Selector.Kind == kindNetns {
		s.Namespace = selector.NamespacePath(b.Selector.Text)
	}
	if b.Selector.Kind != kindInterface {
		return s, true
	}
	s.Device, s.Index = b.Selector.Text, int(b.Binding.Number)
	return s, b.Binding.Kind == match.Interface && b.Binding.Missing == ""
}

// shapedState returns the shaped directions of a state.
func shapedState(s module.State) (w shape.Work) {
	var matched module.State // scopes of packets that are classified at every device
	named := s.ByName()
	for _, b := range s.Scopes {
		for _, d := range direction.Both {
			if l, is := shaperOf(b, d, named); is {
				w.Shapers = append(w.Shapers, l)
			}
		}
		if shaped(b.Scope, Egress) && b.Selector.Kind != kindInterface && b.Selector.Kind != kindNetns {
			matched.Scopes = append(matched.Scopes, b)
		}
		// A socket's pace and window have one owner: where the policer's programs set them, the
		// shaper's must not.
		w.Unpaced = w.Unpaced || policed(b.Scope, Egress)
		w.Unheld = w.Unheld || policed(b.Scope, Ingress)
	}
	w.Assignments, w.Places, w.Shared = matched.Assignments(), matched.Places(), s.Shared
	return w
}

// Ready returns an error for each scope that this host cannot police or shape.
func (p *plane) Ready(want module.State) error {
	want, _, _, err := p.settle(want)
	if err != nil {
		return err
	}
	var all []error
	if rest := policedState(want); !rest.Empty() {
		all = append(all, p.police.Ready(rest))
	} else if !want.Empty() {
		all = append(all, police.CanPin(p.police.host.Pins))
	}
	named := want.ByName()
	for _, b := range want.Scopes {
		for _, d := range direction.Both {
			if !shaped(b.Scope, d) {
				continue
			}
			mechanism, err := shape.Available(d)
			if err == nil && mechanism != shape.Fq && treatmentOf(b.Scope).of(d).Shared.Name != "" {
				err = fault.New(fault.Testbed, "write mode: police, or use a kernel with fq (CONFIG_NET_SCH_FQ)", "shape at the rate of a shared limit: the kernel has no fq, and an HTB class has a single rate")
			}
			if l, there := shaperOf(b, d, named); err == nil && there && l.Device != "" {
				err = p.shape.Check(l)
			}
			if err != nil {
				all = append(all, &module.Unsupported{Scope: b.Name, Key: d.String(), Err: err})
			}
		}
	}
	return errors.Join(append(all, p.shape.Ready(shapedState(want)))...)
}

// Settle returns a state with the mode of each direction on this host.
func (p *plane) Settle(s module.State) (module.State, error) {
	s, _, _, err := p.settle(s)
	return s, err
}

// Outdated reports whether a direction without a mode would have another one now than it has.
func (p *plane) Outdated(have module.State) (bool, error) {
	now, _, _, err := p.settle(have)
	if err != nil {
		return false, err
	}
	active, err := p.active(have)
	if err != nil {
		return false, err
	}
	for i, b := range active.Scopes {
		for _, d := range direction.Both {
			if shaped(b.Scope, d) != shaped(now.Scopes[i].Scope, d) {
				return true, nil
			}
		}
	}
	return false, nil
}

// InPlace reports whether both data planes are in place, with the modes that were applied.
func (p *plane) InPlace(have module.State) (bool, error) {
	have, err := p.active(have)
	if err != nil {
		return false, err
	}
	rest, in := policedState(have), true
	if !rest.Empty() || have.Empty() {
		in, err = p.police.InPlace(rest)
	}
	if have.Empty() {
		any, more := p.shape.Any()
		return in || any, errors.Join(err, more)
	}
	if err != nil || !in {
		return false, err
	}
	return p.shape.InPlace(shapedState(have))
}

// Apply changes both data planes from one state to another.
func (p *plane) Apply(have, want module.State) (notes []string, err error) {
	have, err = p.active(have)
	if err != nil {
		return nil, err
	}
	for {
		planned := p.PlanNotes(want)
		settled, _, _, err := p.settle(want)
		if err != nil {
			return nil, err
		}
		notes, unshaped, err := p.change(have, settled)
		if unshaped == nil || !triesPolicing(p.shape, want, unshaped) {
			return slices.Concat(notes, planned), errors.Join(err, unshaped)
		}
		have = settled
	}
}

// change changes both data planes between states with modes. unshaped is an error of the shapers
// alone: the policer has changed.
func (p *plane) change(have, want module.State) (notes []string, unshaped, err error) {
	had, rest, work := policedState(have), policedState(want), shapedState(want)
	if err := p.dropLeases(have, want); err != nil {
		return nil, nil, err
	}
	if err := p.shape.Cede(work); err != nil {
		return nil, nil, err
	}
	if !rest.Empty() {
		notes, err = p.police.Apply(had, rest)
	} else if police.AttachmentsPinned(p.police.host.Pins) {
		_, err = p.police.Release()
	}
	if err != nil {
		return nil, nil, err
	}
	shaping := p.shape
	shaping.Foreign = &netns.Few{Most: maxForeign}
	if unshaped = applyShapers(shaping, shapedState(have).Assignments, work); unshaped == nil {
		err = p.arrangeLeases(want)
	}
	return slices.Concat(notes, skippedNamespaces(shaping.Foreign)), unshaped, err
}

// applyShapers is the shaper's Apply. Tests replace it.
var applyShapers = shape.Host.Apply

// PlanNotes names the directions that are policed for an obstacle or because of filters, the qdisc
// trees that shaping replaces, and scopes without a device to shape at.
func (p *plane) PlanNotes(want module.State) (notes []string) {
	want, fallbacks, policed, err := p.settle(want)
	if err != nil {
		return nil // Ready returns the same error
	}
	notes = fallbackNotes(fallbacks)
	for _, f := range policed {
		notes = append(notes, f.String())
	}
	w := shapedState(want)
	return slices.Concat(notes, replacedTrees(p.shape.PlanNotes(w)), p.unreachable(w))
}

// unreachable names the network namespaces that no veth pair connects to this one.
func (p *plane) unreachable(w shape.Work) (notes []string) {
	for _, name := range p.shape.Unled(w) {
		notes = append(notes, "no veth pair connects the network namespace "+name+" to this one: its traffic is not shaped until there is one")
	}
	return notes
}

// replacedTrees names the qdisc trees that shapers replace.
func replacedTrees(trees []string) []string {
	const named = 8
	if len(trees) == 0 {
		return nil
	}
	text := strings.Join(trees[:min(named, len(trees))], ", ")
	if more := len(trees) - named; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return []string{"shaping replaces " + text + ", which weir release restores"}
}

// QdiscDevices lists the devices with a shaped egress. Ingress is shaped at an ifb.
func (p *plane) QdiscDevices(s module.State) (devices []string) {
	s, _, _, err := p.settle(s)
	if err != nil {
		return nil // Ready returns the same error
	}
	all, err := p.shape.AtDevices(shapedState(s))
	if err != nil {
		return nil
	}
	for _, l := range all {
		if l.Direction == Egress {
			devices = append(devices, l.Device)
		}
	}
	return devices
}

// CanHost returns ErrNotShared: a shaper's tree has no classes.
func (p *plane) CanHost() error { return module.ErrNotShared }

// CanNest returns an error for a device with a scope of its own: its shaper would delay all classes
// of the owner's tree in one queue. Shapers of other scopes nest by departure time.
func (p *plane) CanNest(s module.State, dev string) error {
	s, _, _, err := p.settle(s)
	if err != nil {
		return err
	}
	named := s.ByName()
	for _, b := range s.Scopes {
		if l, is := shaperOf(b, Egress, named); is && l.Device == dev {
			return fault.New(fault.Usage, fmt.Sprintf("write the lower rate of both as links.%s.rate, which the classes share, and leave egress with mode: shape of scope %s out", dev, b.Name),
				"scope %s would put all classes of %s into one queue in front of theirs", b.Name, dev)
		}
	}
	return nil
}

// Yield removes the shapers that are not wanted.
func (p *plane) Yield(want module.State) error {
	want, _, _, err := p.settle(want)
	if err != nil {
		return err
	}
	all, err := p.shape.AtDevices(shapedState(want))
	if err != nil {
		return err
	}
	return p.shape.Yield(all)
}

// Follow paces the open sockets of a new network namespace.
func (p *plane) Follow(ns *netns.Namespace) error {
	return errors.Join(p.police.Follow(ns), p.shape.Follow(ns))
}

// Holds reports whether traffic of a key belongs to the scope.
func (p *plane) Holds(scope int, key match.Key) (bool, error) {
	holds, err := p.police.Holds(scope, key)
	if err != nil || holds {
		return holds, err
	}
	return p.shape.Holds(scope, key)
}

// FollowDevices installs shapers at new devices of the thread's network namespace.
func (p *plane) FollowDevices(ns *netns.Namespace, have module.State) error {
	if ns != nil {
		return nil
	}
	return p.shape.FollowDevices(have.Shared)
}

// Release removes both data planes.
func (p *plane) Release() (released bool, err error) {
	if err := p.arrangeLeases(module.State{}); err != nil {
		return false, err
	}
	shapers, err := p.shape.Release()
	if err != nil {
		return shapers, err
	}
	policers, err := p.police.Release()
	return shapers || policers, err
}
