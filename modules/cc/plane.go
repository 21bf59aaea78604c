// SPDX-License-Identifier: Apache-2.0

package cc

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/cilium/ebpf"

	"weir/core/match"
	"weir/core/module"
	"weir/core/policy"
	"weir/kernel/bpffs"
	"weir/kernel/cgroup"
	"weir/kernel/probe"
)

// hostPlane is the pinned data plane.
type hostPlane struct {
	host   module.Host
	module Module
}

func (p *hostPlane) folder() string { return filepath.Join(p.host.Pins, inForceFolder) }

// ours returns the controls of Weir that scopes need, by their names for sockets. Shadow scopes and
// groups need none.
func (p *hostPlane) ours(s module.State) map[string]algorithm {
	all := map[string]algorithm{}
	for _, b := range s.Scopes {
		if b.Shadow || b.Selector.Kind == policy.Group {
			continue
		}
		if name, kind, own := p.module.controlName(treatmentOf(b.Scope).Control); own {
			all[name] = kind
		}
	}
	return all
}

// InPlace reports whether the program is attached and filled, and all controls of Weir are
// registered.
func (p *hostPlane) InPlace(have module.State) (bool, error) {
	if bpffs.Replacing(p.folder()) {
		return false, nil
	}
	a, err := openAssigner(p.folder())
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer func() { _ = a.close() }()
	if filled, err := a.filled(); err != nil || !filled {
		return false, err
	}
	offered, err := probe.CongestionControls()
	if err != nil {
		return false, err
	}
	for name := range p.ours(have) {
		if !slices.Contains(offered, name) {
			return false, nil
		}
	}
	return true, nil
}

// Apply applies a state: new controls first, so that no scope requests a missing one, and obsolete
// ones last. It writes the complete new state.
func (p *hostPlane) Apply(have, want module.State) (notes []string, err error) {
	a, smaller, err := p.open(module.CapacityFor(have, want))
	if err != nil {
		return nil, err
	}
	defer func() { _ = a.close() }()
	if smaller != nil { // its pins keep it attached until Replace
		defer func() { _ = smaller.close() }()
	}
	needed := p.ours(want)
	for _, name := range slices.Sorted(maps.Keys(needed)) {
		note, err := hold(p.host.Pins, name, needed[name])
		if err != nil {
			return nil, err
		}
		if note != "" {
			notes = append(notes, note)
		}
	}
	if err := match.Sweep(p.folder(), a.objects.ScopeCgroups, have.Assignments(), want.Assignments()); err != nil {
		return nil, err
	}
	if err := p.fill(a, have, want); err != nil {
		return nil, err
	}
	if smaller != nil { // the larger program is filled: no connection misses its control
		if err := bpffs.Replace(p.folder(), a.pins(), nil); err != nil {
			return nil, err
		}
	}
	if err := match.Rebind(p.folder(), a.objects.ScopeCgroups, want.Places()); err != nil && !errors.Is(err, ebpf.ErrNotSupported) {
		notes = append(notes, "recreated cgroups get their congestion control after the next resync of weir daemon, or the next apply: "+err.Error())
	}
	if err := letGo(p.host.Pins, needed); err != nil {
		return nil, err
	}
	return append(notes, openNotes(have, want)...), nil
}

// fill writes scopes and assignments.
func (p *hostPlane) fill(a *assigner, have, want module.State) error {
	root, err := cgroup.Cgroup{Path: p.host.CgroupRoot}.ID()
	if err != nil {
		return err
	}
	stays := want.ByIndex()
	var indices, gone []uint32
	var scopes []assignCcScope
	for _, b := range want.Scopes {
		indices, scopes = append(indices, uint32(b.Index)), append(scopes, p.scope(b))
	}
	if err := a.set(indices, scopes); err != nil {
		return err
	}
	later := uint32(0)
	if len(want.Places()) > 0 {
		later = match.Cgroups
	}
	if err := a.reassign(have, want, match.OfCgroup(root), later); err != nil {
		return err
	}
	for _, b := range have.Scopes {
		if _, kept := stays[b.Index]; !kept {
			gone = append(gone, uint32(b.Index))
		}
	}
	return a.forget(gone)
}

// Holds reports whether a key is assigned to a scope, by Weir or by the kernel.
func (p *hostPlane) Holds(scope int, key match.Key) (bool, error) {
	a, err := openAssigner(p.folder())
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer func() { _ = a.close() }()
	return match.Holds(a.objects.ScopeCgroups, key, scope)
}

// scope returns the parameters of a scope.
func (p *hostPlane) scope(b module.Bound) (scope assignCcScope) {
	name, kind := "", algorithm{}
	if control := treatmentOf(b.Scope).Control; control != "" {
		name, kind, _ = p.module.controlName(control)
	}
	copy(scope.Control[:], name)
	if kind.needsECN {
		scope.Flags = assignCcScopeFlagsCC_SCOPE_ECN
	}
	if chosen, held := receivingOf(treatmentOf(b.Scope).Downloads); held {
		scope.Receive = chosen.tune
	}
	return scope
}

// openNotes returns notes about connections that are open during a change.
func openNotes(have, want module.State) (notes []string) {
	if changes(have, want, func(t Treatment) string { return t.Control }) {
		notes = append(notes, "TCP connections that are open keep their congestion control until they close")
	}
	if changes(have, want, func(t Treatment) string { return t.Downloads }) {
		notes = append(notes, "downloads of TCP connections that are open are held only where they were: those follow their scope, and get their windows back when it ends")
	}
	return notes
}

// changes reports whether some scope gets another control or receiver-side control.
func changes(have, want module.State, of func(Treatment) string) bool {
	had := have.ByName()
	return slices.ContainsFunc(want.Scopes, func(b module.Bound) bool {
		before, there := had[b.Name]
		now, was := of(*treatmentOf(b.Scope)), ""
		if there {
			was = of(*treatmentOf(before.Scope))
		}
		return !b.Shadow && now != "" && (!there || before.Shadow || was != now || before.Binding != b.Binding)
	})
}

// open opens the pinned program, or loads, attaches and pins one. If the pinned one is too small, a
// larger one with its counts replaces it: smaller is the former, and the caller fills the new one
// before it replaces the pins.
func (p *hostPlane) open(scopes int) (a, smaller *assigner, err error) {
	if err := bpffs.Complete(p.folder()); err != nil {
		return nil, nil, err
	}
	a, err = openAssigner(p.folder())
	switch {
	case err == nil && a.objects.AssignScopes.MaxEntries() >= uint32(scopes):
		return a, nil, nil
	case err == nil:
		smaller = a
	case !errors.Is(err, fs.ErrNotExist):
		return nil, nil, err
	}
	a, err = p.load(scopes, smaller)
	if err != nil && smaller != nil {
		_ = smaller.close()
	}
	return a, smaller, err
}

// load loads a program in the place of a smaller one, if there is one.
func (p *hostPlane) load(scopes int, smaller *assigner) (*assigner, error) {
	var given map[string]*ebpf.Map
	if smaller != nil {
		given = map[string]*ebpf.Map{assignMapReceiveSockets: smaller.objects.ReceiveSockets}
	}
	a, err := loadAssigner(scopes, policyProgram, given)
	if err != nil {
		return nil, err
	}
	if smaller != nil {
		err = errors.Join(bpffs.CopyEach[assignCcScopeCounts](smaller.objects.AssignCounts, a.objects.AssignCounts), a.attach(p.host.CgroupRoot))
	} else {
		err = p.begin(a)
	}
	if err != nil {
		return nil, errors.Join(err, a.close())
	}
	return a, nil
}

// begin attaches and pins the first program. Pins of a killed process, or of another version of
// Weir, are removed; those of controls stay.
func (p *hostPlane) begin(a *assigner) error {
	for _, step := range []func() error{p.unpinAssigner, p.noStrays, func() error { return bpffs.Make(p.folder()) }} {
		if err := step(); err != nil {
			return err
		}
	}
	if err := a.attach(p.host.CgroupRoot); err != nil {
		return err
	}
	return a.pin(p.folder())
}

// unpinAssigner ends the program, its attachment first.
func (p *hostPlane) unpinAssigner() error {
	paths, err := filepath.Glob(filepath.Join(p.folder(), "*"))
	if err != nil {
		return fmt.Errorf("unpin scope program: %w", err)
	}
	for _, path := range append([]string{filepath.Join(p.folder(), linkPin)}, paths...) {
		if isControl, _ := filepath.Match("*-*", filepath.Base(path)); isControl {
			continue
		}
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return bpffs.Fault(fmt.Errorf("unpin scope program: %w", err))
		}
	}
	return nil
}

// noStrays returns an error if a policy's program is active without a pin here.
func (p *hostPlane) noStrays() error {
	return bpffs.NoStrays(p.host.CgroupRoot, "congestion controls", []ebpf.AttachType{ebpf.AttachCGroupSockOps}, policyProgram)
}

// Release ends everything of the policy and keeps the pins of weir cc install.
func (p *hostPlane) Release() (released bool, err error) {
	released = exists(p.folder())
	if err := bpffs.Complete(p.folder()); err != nil {
		return false, err
	}
	a, err := openAssigner(p.folder())
	if err == nil {
		defer func() { _ = a.close() }()
	}
	if err := p.unpinAssigner(); err != nil {
		return false, err
	}
	if err == nil {
		if err := errors.Join(a.detach(), a.freeWindows()); err != nil {
			return false, err
		}
	}
	if err := letGo(p.host.Pins, nil); err != nil {
		return false, err
	}
	if err := os.Remove(p.folder()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, bpffs.Fault(fmt.Errorf("release congestion controls: %w", err))
	}
	_ = os.Remove(p.host.Pins) // unless weir cc install has pins in it
	return released, p.noStrays()
}
