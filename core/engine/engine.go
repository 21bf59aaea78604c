// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"weir/core/module"
	"weir/core/policy"
	"weir/core/selector"
	"weir/core/selector/runtimes"
	"weir/internal/fault"
	"weir/internal/systemd"
	"weir/kernel/bpffs"
	"weir/kernel/cgroup"
	"weir/kernel/netns"
	"weir/kernel/storage"
)

// Engine applies policies to this host. Tests use other folders.
type Engine struct {
	Modules    []module.Module
	Language   *policy.Language // of the same modules
	StateDir   string           // state, journal, lock
	PinDir     string           // in a BPF file system; one folder per module
	CgroupRoot string           // programs are attached here
	LockWait   time.Duration    // for the lock of other commands; 0 is 30 s
	// Sockets calls a function for every network namespace with open sockets to adopt and to reset.
	Sockets func(func(*netns.Namespace) error) error
	// Manager resolves units; nil without a service manager.
	Manager selector.Manager
	// Runtimes lists the container runtimes; nil for those of this host.
	Runtimes []runtimes.Runtime
}

// New returns the engine of this host with modules and their language.
func New(modules []module.Module, language *policy.Language) (*Engine, error) {
	root, err := cgroup.Root()
	if err != nil {
		return nil, err
	}
	e := &Engine{Modules: modules, Language: language, StateDir: "/run/weir/policy", PinDir: "/sys/fs/bpf/weir", CgroupRoot: root, Sockets: everywhere}
	if manager := systemd.Booted(); manager != nil {
		e.Manager = manager
	}
	return e, nil
}

// host returns the place of a module's data plane.
func (e *Engine) host(r module.Module) module.Host {
	return module.Host{Pins: filepath.Join(e.PinDir, r.Name()), Devices: e.DevicePins(), Files: filepath.Join(e.StateDir, r.Name()), CgroupRoot: e.CgroupRoot, Namespaces: e.Sockets, Followers: e.followers}
}

// DevicePins returns the folder of the pins at devices.
func (e *Engine) DevicePins() string { return filepath.Join(e.PinDir, "devices") }

func (e *Engine) Plane(r module.Module) module.Plane { return r.Plane(e.host(r)) }

// Lookup returns a view of this host for one resync.
func (e *Engine) Lookup() *selector.Host {
	have, err := e.store().read(current)
	if err != nil {
		have = &state{} // other calls return the error
	}
	return e.lookup(have.names)
}

func (e *Engine) lookup(names deviceNames) *selector.Host {
	return &selector.Host{CgroupRoot: e.CgroupRoot, Manager: e.Manager, Runtimes: e.Runtimes, Device: names.resolve}
}

// Plan returns the outcome of a future Apply. It changes nothing and does not complete an
// interrupted apply.
func (e *Engine) Plan(want *policy.Policy) (Outcome, error) {
	have, err := e.store().read(current)
	if err != nil {
		return Outcome{}, err
	}
	next, err := e.next(have, want.Scopes, want.Host)
	if err != nil {
		return Outcome{}, err
	}
	// Unsupported scopes are errors now. Other obstacles may be gone at the time of the apply.
	_, twice := e.ownersOf(next)
	refused := e.ready(next)
	if twice != nil || len(unsupported(refused)) > 0 {
		return Outcome{}, refused
	}
	out, err := e.outcome(have, next)
	if err != nil {
		return Outcome{}, err
	}
	out.Rejected = obstacles(refused)
	out.Notes = append(append(out.Notes, e.planNotes(next)...), next.asideNotes()...)
	orphaned, err := e.orphaned(have)
	if orphaned {
		out.Notes = append(out.Notes, fmt.Sprintf(noteOrphaned, e.PinDir, e.StateDir))
	}
	return out, err
}

// next returns the state of a policy beside the owned scopes.
func (e *Engine) next(have *state, scopes []policy.Scope, host []policy.Item) (*state, error) {
	return e.nextWith(have, scopes, host, have.owned())
}

// nextWith numbers and binds the wanted scopes. A scope that stays keeps its number.
func (e *Engine) nextWith(have *state, scopes []policy.Scope, host []policy.Item, owned []OwnedScope) (*state, error) {
	if len(scopes)+len(owned) > module.MaxScopes {
		return nil, fault.New(fault.Usage, "merge scopes", "the policy and the limits of containers have %d scopes; the maximum is %d", len(scopes)+len(owned), module.MaxScopes)
	}
	numbers, used, before := map[string]int{}, map[int]bool{}, have.byName()
	for _, h := range have.Scopes {
		numbers[h.Name], used[h.Index] = h.Index, true
	}
	free := 0
	number := func(name string) int {
		index, known := numbers[name]
		if !known {
			for used[free] {
				free++
			}
			index, used[free] = free, true
		}
		return index
	}
	next := &state{Format: formatState, Applied: time.Now().UTC(), Host: host}
	named := slices.Clone(scopes)
	for _, o := range owned {
		named = append(named, o.Scope)
	}
	names, err := lookUpDevices(namesIn(named, host), have.names.ids)
	if err != nil {
		return nil, err
	}
	next.names = names
	look := e.lookup(names)
	for _, scope := range scopes {
		bound, err := look.Bind(scope.Selector)
		if errors.Is(err, selector.ErrAway) {
			bound, err = e.bindAway(before[scope.Name], scope.Selector, err), nil
		}
		if err != nil {
			return nil, &module.Unsupported{Scope: scope.Name, Key: scope.Selector.Kind, Err: err}
		}
		if was := before[scope.Name]; bound.Path == "" && was.Selector == scope.Selector {
			bound.Path = was.Bound.Path // a stopped unit restarts in the same cgroup
		}
		next.Scopes = append(next.Scopes, held{Scope: scope, Index: number(scope.Name), Bound: bound})
	}
	return next, next.addOwned(owned, look, number)
}

// Apply makes the wanted policy active. After an error the former policy is active again.
func (e *Engine) Apply(want *policy.Policy) (out Outcome, err error) {
	s, err := e.openStore()
	if err != nil {
		return Outcome{}, err
	}
	defer s.close()
	if len(want.Scopes)+len(want.Host) > 0 {
		mounted, err := bpffs.Mount(e.PinDir)
		if err != nil {
			return Outcome{}, err
		}
		defer func() {
			if mounted {
				out.Notes = append(out.Notes, "mounted a BPF file system at /sys/fs/bpf with mode 700")
			}
		}()
	}
	have, recovered, err := e.recover(s)
	if err != nil {
		return Outcome{}, err
	}
	next, err := e.next(have, want.Scopes, want.Host)
	if err != nil {
		return Outcome{}, err
	}
	return e.lead(s, have, next, recovered)
}

// Rebind binds the active scopes to their current cgroups and devices: a cgroup that was created
// again has another id. It changes no treatment, and does nothing without an active policy.
func (e *Engine) Rebind() (Outcome, error) {
	s, err := e.openStore()
	if err != nil {
		return Outcome{}, err
	}
	defer s.close()
	have, recovered, err := e.recover(s)
	if err != nil || have.Applied.IsZero() {
		return Outcome{Format: formatOutcome}, err
	}
	next, err := e.next(have, have.policyScopes(), have.Host)
	if err != nil {
		return Outcome{}, err
	}
	if next.Applied, next.NoPolicy = have.Applied, have.NoPolicy; next.NoPolicy && next.empty() {
		ended, err := e.endAll(s)
		return Outcome{Format: formatOutcome, Changed: ended, Recovered: recovered}, err
	}
	return e.lead(s, have, next, recovered)
}

// lead applies the next state through the journal, unless it is active already.
func (e *Engine) lead(s *store, have, next *state, recovered bool) (Outcome, error) {
	out, err := e.outcome(have, next)
	if err != nil {
		return Outcome{}, err
	}
	out.Recovered = recovered
	if !out.Changed && !have.Applied.IsZero() && have.NoPolicy == next.NoPolicy {
		return out, nil
	}
	out.Changed = true
	if err := e.ready(next); err != nil {
		return Outcome{}, err // nothing has changed
	}
	if err := s.write(journal, next); err != nil {
		return Outcome{}, err
	}
	orphaned, err := e.endOrphaned(have)
	if err != nil {
		return Outcome{}, err
	}
	notes, undone, err := e.enforce(have, next)
	if err != nil {
		if undone {
			_ = s.remove(journal)
		}
		return Outcome{}, err
	}
	if orphaned {
		notes = append(notes, fmt.Sprintf(noteOrphaned, e.PinDir, e.StateDir))
	}
	out.Notes = append(notes, next.asideNotes()...)
	return out, s.commit()
}

// ready returns the reasons why this host cannot apply a state.
func (e *Engine) ready(next *state) error {
	if err := bpffs.Safe(e.PinDir); err != nil {
		return err
	}
	qdiscOwners, twice := e.ownersOf(next)
	all := []error{twice}
	for _, r := range e.Modules {
		if part := qdiscOwners.of(next, r); !part.Empty() {
			all = append(all, e.Plane(r).Ready(part))
		}
	}
	return errors.Join(all...)
}

// planNotes returns notes for the user about a future apply.
func (e *Engine) planNotes(next *state) (notes []string) {
	qdiscOwners, _ := e.ownersOf(next)
	for _, r := range e.Modules {
		if noter, can := e.Plane(r).(module.PlanNoter); can {
			notes = append(notes, noter.PlanNotes(qdiscOwners.of(next, r))...)
		}
	}
	return notes
}

// inPlace reports whether the data planes of all active modules are complete.
func (e *Engine) inPlace(have *state) (bool, error) {
	qdiscOwners, _ := e.ownersOf(have)
	for _, r := range e.Modules {
		part := qdiscOwners.of(have, r)
		if part.Empty() {
			continue
		}
		if in, err := e.Plane(r).InPlace(part); err != nil || !in {
			return false, err
		}
	}
	return true, nil
}

// outdated reports whether an active module would treat its scopes in another way now.
func (e *Engine) outdated(have *state) (bool, error) {
	qdiscOwners, _ := e.ownersOf(have)
	for _, r := range e.Modules {
		plane, can := e.Plane(r).(module.Outdater)
		if part := qdiscOwners.of(have, r); can && !part.Empty() {
			if outdated, err := plane.Outdated(part); err != nil || outdated {
				return outdated, err
			}
		}
	}
	return false, nil
}

// recover completes an interrupted apply or release and returns the active state.
func (e *Engine) recover(s *store) (have *state, recovered bool, err error) {
	if bpffs.Safe(e.PinDir) == nil { // otherwise nothing is pinned there
		if err := bpffs.Clean(e.PinDir); err != nil {
			return nil, false, err
		}
	}
	if have, err = s.read(current); err != nil {
		return nil, false, err
	}
	begun, err := s.find(journal)
	if err != nil || begun == nil {
		return have, false, err
	}
	if begun.Release {
		if _, err := e.end(s); err != nil {
			return nil, false, fmt.Errorf("complete an interrupted release: %w", err)
		}
		return &state{Format: formatState}, true, nil
	}
	if _, _, err := e.enforce(have, begun); err != nil {
		return nil, false, fmt.Errorf("complete an interrupted apply: %w", err)
	}
	return begun, true, s.commit()
}

// enforce applies the next state of every module in order. Every step is repeatable. If a module
// fails, enforce rolls back in reverse order; undone reports whether that succeeded.
func (e *Engine) enforce(have, next *state) (notes []string, undone bool, err error) {
	s := step{have: have, next: next}
	s.before, _ = e.ownersOf(have)
	if s.after, err = e.ownersOf(next); err != nil {
		return nil, true, err
	}
	led, err := e.yield(s)
	if err != nil {
		undone, err = e.rollBack(s, led, err)
		return nil, undone, err
	}
	for _, r := range e.Modules {
		led[r.Name()] = true
		more, err := e.enforceModule(r, s.before.of(have, r), s.after.of(next, r))
		if err != nil {
			undone, err = e.rollBack(s, led, err)
			return nil, undone, err
		}
		notes = append(notes, more...)
	}
	return notes, false, nil
}

// step is a transition between states; before and after are the qdisc owners of each.
type step struct {
	have, next    *state
	before, after qdiscOwners
}

func (s step) back() step { return step{s.next, s.have, s.after, s.before} }

// rollBack applies the former state of the modules in led after the error cause. undone reports
// whether all succeeded; the error is cause joined with those of the roll-back.
func (e *Engine) rollBack(s step, led map[string]bool, cause error) (undone bool, err error) {
	undone, err = true, cause
	if _, failed := e.yield(s.back()); failed != nil {
		undone, err = false, errors.Join(err, fmt.Errorf("roll back: %w", failed))
	}
	for _, r := range slices.Backward(e.Modules) {
		if !led[r.Name()] {
			continue
		}
		if _, undo := e.enforceModule(r, s.after.of(s.next, r), s.before.of(s.have, r)); undo != nil {
			undone, err = false, errors.Join(err, fmt.Errorf("roll back %s: %w", r.Name(), undo))
		}
	}
	return undone, err
}

// enforceModule applies the next state of one module; an empty state releases it.
func (e *Engine) enforceModule(r module.Module, have, next module.State) (notes []string, err error) {
	switch plane := e.Plane(r); {
	case !next.Empty():
		return plane.Apply(have, next)
	case !have.Empty():
		if _, err = plane.Release(); errors.Is(err, module.ErrForeign) {
			err = nil // foreign programs do not conflict with the next state
		}
	}
	return nil, err
}

// Release ends the policy and keeps the scopes of other owners; without those it is ReleaseAll.
// released reports whether there was a policy.
func (e *Engine) Release() (released bool, err error) {
	s, err := e.openToEnd()
	if err != nil {
		return false, err
	}
	defer s.close()
	if released, kept, err := e.releasePolicy(s); kept {
		return released, err
	}
	return e.endAll(s)
}

// ReleaseAll ends all treatment and removes attachments, pins and state. released reports whether
// there was any. After a crash the next command completes it, unless no journal could be written:
// then a second release does.
func (e *Engine) ReleaseAll() (released bool, err error) {
	s, err := e.openToEnd()
	if err != nil {
		return false, err
	}
	defer s.close()
	return e.endAll(s)
}

func (e *Engine) endAll(s *store) (released bool, err error) {
	if err := s.write(journal, &state{Format: formatState, Release: true}); err != nil && !storage.Unwritable(err) {
		return false, err
	}
	return e.end(s)
}

// end releases all modules in reverse order and removes the state. An error with released concerns
// only the state, or programs of another owner.
func (e *Engine) end(s *store) (released bool, err error) {
	released, err = e.endModules()
	if err != nil && !errors.Is(err, module.ErrForeign) {
		return false, err
	}
	if forgotten := errors.Join(s.remove(current), s.remove(journal), forgetController(e.StateDir)); forgotten != nil {
		return released, fault.Wrap(fmt.Errorf("the treatment has ended, but its state could not be removed: %w", forgotten), fault.Of(forgotten), fault.Advice(forgotten))
	}
	// Remove fails if other pins are in the folder.
	_ = os.Remove(e.PinDir)
	return released, err
}

// endModules releases all modules. Programs of other owners are reported afterwards.
func (e *Engine) endModules() (released bool, err error) {
	for _, r := range slices.Backward(e.Modules) {
		ended, failed := e.Plane(r).Release()
		if failed != nil && !errors.Is(failed, module.ErrForeign) {
			return false, failed
		}
		released, err = released || ended, errors.Join(err, failed)
	}
	return released, err
}
