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

	"weir/internal/kernel/cgroup"
	"weir/internal/kernel/probe"
	"weir/internal/match"
	"weir/internal/room"
	"weir/policy"
)

// hostPlane is the data plane that the spine leads, pinned.
type hostPlane struct {
	host room.Host
	room Room
}

func (p *hostPlane) folder() string { return filepath.Join(p.host.Pins, inForceFolder) }

// ours are the controls of Weir's that scopes need, by the names that sockets know. Scopes in
// shadow and groups need none.
func (p *hostPlane) ours(s room.State) map[string]algorithm {
	all := map[string]algorithm{}
	for _, b := range s.Scopes {
		if b.Shadow || b.Selector.Kind == policy.Group {
			continue
		}
		if name, kind, own := p.room.controlName(treatmentOf(b.Scope).Control); own {
			all[name] = kind
		}
	}
	return all
}

// InPlace says whether the program is attached and filled, and whether all controls of Weir's are
// there.
func (p *hostPlane) InPlace(have room.State) (bool, error) {
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

// Apply leads the data plane from one state to another: controls first, so that no scope asks for
// one that is not there, and what is not needed any more last. All of what is wanted is written,
// whatever was there.
func (p *hostPlane) Apply(have, want room.State) (notes []string, err error) {
	a, err := p.open()
	if err != nil {
		return nil, err
	}
	defer func() { _ = a.close() }()
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
	if err := p.fill(a, have, want); err != nil {
		return nil, err
	}
	if err := letGo(p.host.Pins, needed); err != nil {
		return nil, err
	}
	if changes(have, want) {
		notes = append(notes, "TCP connections that are open keep their congestion control until they close")
	}
	return notes, nil
}

// fill writes scopes and assignments.
func (p *hostPlane) fill(a *assigner, have, want room.State) error {
	root, err := cgroup.Cgroup{Path: p.host.CgroupRoot}.ID()
	if err != nil {
		return err
	}
	named, stays := want.ByName(), want.ByIndex()
	var indices, gone []uint32
	var scopes []assignCcScope
	for _, b := range want.Scopes {
		scope := p.scope(b, match.OfCgroup(root))
		if above, treated := named[b.Parent]; treated {
			scope.Parent = uint32(above.Index) + 1
		}
		indices, scopes = append(indices, uint32(b.Index)), append(scopes, scope)
	}
	if err := a.set(indices, scopes); err != nil {
		return err
	}
	if err := a.reassign(assignments(have), assignments(want)); err != nil {
		return err
	}
	for _, b := range have.Scopes {
		if _, kept := stays[b.Index]; !kept {
			gone = append(gone, uint32(b.Index))
		}
	}
	return a.forget(gone)
}

// scope is what the program is told of a scope.
func (p *hostPlane) scope(b room.Bound, host match.Key) (scope assignCcScope) {
	name, kind, _ := p.room.controlName(treatmentOf(b.Scope).Control)
	copy(scope.Control[:], name)
	for flag, set := range map[assignCcScopeFlags]bool{assignCcScopeFlagsCC_SCOPE_ECN: kind.needsECN,
		assignCcScopeFlagsCC_SCOPE_SHADOW: b.Shadow, assignCcScopeFlagsCC_SCOPE_HOST: b.Binding.Key == host} {
		if set {
			scope.Flags |= flag
		}
	}
	return scope
}

// assignments are what scopes stand for; those that wait, and groups, stand for nothing. Of two
// that stand for the same the later one counts.
func assignments(s room.State) match.Assignments {
	all := match.Assignments{}
	for _, b := range s.Scopes {
		if b.Binding.Kind != "" && b.Binding.Missing == "" {
			all[b.Binding.Key] = b.Index
		}
	}
	return all
}

// changes says whether some scope has another control than before.
func changes(have, want room.State) bool {
	had := have.ByName()
	return slices.ContainsFunc(want.Scopes, func(b room.Bound) bool {
		before, there := had[b.Name]
		return !b.Shadow && (!there || before.Shadow || *treatmentOf(before.Scope) != *treatmentOf(b.Scope) || before.Binding != b.Binding)
	})
}

// open opens the pinned program, or loads, attaches and pins one.
func (p *hostPlane) open() (*assigner, error) {
	a, err := openAssigner(p.folder())
	if !errors.Is(err, fs.ErrNotExist) {
		return a, err
	}
	// What a crash between two pins has left, or another version of Weir, or a hand, is of no use.
	// The controls are.
	if err := p.unpinAssigner(); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(p.folder(), 0o700); err != nil {
		return nil, pinFault(fmt.Errorf("pin scope program: %w", err))
	}
	if a, err = loadAssigner(room.MaxScopes); err != nil {
		return nil, err
	}
	if err = a.attach(p.host.CgroupRoot); err == nil {
		err = a.pin(p.folder())
	}
	if err != nil {
		_ = a.close()
		return nil, err
	}
	return a, nil
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
			return pinFault(fmt.Errorf("unpin scope program: %w", err))
		}
	}
	return nil
}

// Release ends everything that the policy holds; what weir cc install has pinned stays.
func (p *hostPlane) Release() (released bool, err error) {
	released = exists(p.folder())
	if err := p.unpinAssigner(); err != nil {
		return false, err
	}
	if err := letGo(p.host.Pins, nil); err != nil {
		return false, err
	}
	if err := os.Remove(p.folder()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, pinFault(fmt.Errorf("release congestion controls: %w", err))
	}
	_ = os.Remove(p.host.Pins) // unless weir cc install has pins in it
	return released, nil
}
