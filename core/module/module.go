// SPDX-License-Identifier: Apache-2.0

// Package module is the contract between core and the modules.
//
// A module contributes keys of scopes or sections of the policy file, and applies them to the host.
// Core (policy, engine, prove, and the commands plan, apply, status, top and prove) knows no module
// by name: modules lists them. core/README.md shows how to add one.
//
// Pitfalls: the engine calls Apply again after a crash with the same states, and with swapped
// states to roll back, so every step of Apply must be repeatable. A plane keeps no state beyond its
// pins and files: each command opens a new one.
package module

import (
	"context"
	"errors"

	"github.com/cilium/ebpf"

	"weir/core/match"
	"weir/core/policy"
	"weir/core/selector"
	"weir/kernel/bpffs"
	"weir/kernel/netns"
)

// Module is one capability of the policy.
type Module interface {
	// Name is short and lower-case. It names the folder of the pins, the document in the journal,
	// and the prefix of metrics.
	Name() string
	Grammar() policy.Grammar
	// Decode parses a treatment from the JSON of the journal.
	Decode(text []byte) (policy.Treatment, error)
	// Mechanism describes the mechanism of a scope on this host; core adds the key that matches its
	// traffic. Core does not call it for waiting scopes. For items of the host only the treatment
	// is set.
	Mechanism(Bound) string
	// Columns declares the values of Report.
	Columns() Columns
	// Plane returns the module's data plane on a host, loaded or not. It has no side effect.
	Plane(Host) Plane
}

// Host is the place of data planes. Tests use their own.
type Host struct {
	Pins       string // folder for the module's pins in a BPF file system; may not exist
	Devices    string // folder for pins of programs at devices (kernel/device), shared by all modules to keep their order
	Files      string // folder for the module's files, as durable as the journal; may not exist; "" for none
	CgroupRoot string
	// Namespaces calls a function for every network namespace with a process or a name.
	Namespaces func(func(*netns.Namespace) error) error
	// Followers returns the active planes with shared limits; nil without an engine.
	Followers func() ([]Followed, error)
}

// Bound is a scope of the module with its resolved selector.
type Bound struct {
	policy.Scope
	// Index is the number of the active scope, from 0 to MaxScopes-1, allocated from 0 up.
	Index     int
	Binding   selector.Binding
	Treatment policy.Treatment // the module's own
}

// MaxScopes is the maximum number of active scopes.
const MaxScopes = 10_240

// State is a module's part of a policy: its scopes in the policy's order, and its items of the
// host.
type State struct {
	Scopes []Bound
	Host   []policy.Item
	// Shared holds the devices at which this module, a QdiscOwner, shares a qdisc tree as host or
	// guest. Core sets it for Ready, InPlace, Apply, PlanNotes, Yield and FollowDevices.
	Shared map[string]bool
	// Claimed holds the devices with a qdisc tree of another module, and whether packets can wait
	// in it until their departure times. Core sets it for every method of a QdiscOwner.
	Claimed map[string]bool
}

// Empty reports whether the state has no scope and no item.
func (s State) Empty() bool { return len(s.Scopes) == 0 && len(s.Host) == 0 }

// ByIndex returns the scopes by number.
func (s State) ByIndex() map[int]Bound {
	all := make(map[int]Bound, len(s.Scopes))
	for _, b := range s.Scopes {
		all[b.Index] = b
	}
	return all
}

// ByName returns the scopes by name.
func (s State) ByName() map[string]Bound {
	all := make(map[string]Bound, len(s.Scopes))
	for _, b := range s.Scopes {
		all[b.Name] = b
	}
	return all
}

// Assignments maps the keys of traffic to scopes, without waiting scopes and groups. Of two scopes
// with the same key the later one wins.
func (s State) Assignments() match.Assignments {
	all := match.Assignments{}
	for _, b := range s.Scopes {
		if b.Binding.Kind != "" && b.Binding.Missing == "" {
			for _, key := range b.Binding.Keys() {
				all[key] = b.Index
			}
		}
	}
	return all
}

// Places maps the paths of the scopes' cgroups, existing or not, to the scopes.
func (s State) Places() map[string]match.Place {
	all := map[string]match.Place{}
	for _, b := range s.Scopes {
		for _, o := range b.Binding.Cgroups() {
			all[o.Path] = match.Place{Scope: b.Index, ID: o.Number}
		}
	}
	return all
}

// Orders returns the precedence of scopes for traffic that matches several of them. host is the key
// of the whole host.
func (s State) Orders(host match.Key) match.Orders {
	all, named := match.Orders{}, s.ByName()
	for _, b := range s.Scopes {
		order := match.Order{Parent: -1, Shadow: b.Shadow, Host: b.Binding.Key == host}
		if above, treated := named[b.Parent]; treated {
			order.Parent = above.Index
		}
		all[b.Index] = order
	}
	return all
}

// Matchable returns an *Unsupported for each scope with a selector that this kernel cannot match in
// programs of a type.
func (s State) Matchable(program ebpf.ProgramType) error {
	var all []error
	kinds := map[match.Kind]error{}
	for _, b := range s.Scopes {
		kind := b.Binding.Kind
		if _, asked := kinds[kind]; !asked && kind != "" {
			kinds[kind] = kind.Needs(program)
		}
		if err := kinds[kind]; err != nil {
			all = append(all, &Unsupported{Scope: b.Name, Key: b.Selector.Kind, Err: err})
		}
	}
	return errors.Join(all...)
}

// Same reports whether two scopes ask the same of a data plane.
func (b Bound) Same(other Bound) bool {
	return b.Index == other.Index && b.Binding == other.Binding && b.Scope.Equal(other.Scope)
}

// Plane is a module's data plane on one host. Core holds the policy's lock during Apply and
// Release, and calls Release instead of Apply for an empty state.
type Plane interface {
	// Ready returns an error before any change if this host cannot apply want. An *Unsupported
	// names scope and key.
	Ready(want State) error
	// InPlace reports whether all programs, maps and pins of have exist, without checking their
	// content. For an empty state it reports whether anything of the plane is active.
	InPlace(have State) (bool, error)
	// Apply changes the host from one state to another. notes are for the user and no errors. After
	// an error core rolls back.
	Apply(have, want State) (notes []string, err error)
	// Report returns the values of the columns. It changes nothing.
	Report(have State) (Report, error)
	// Release removes everything of the plane, in any state after a crash. released reports whether
	// there was anything.
	Release() (released bool, err error)
}

// Follower is a Plane with work in each network namespace that appears while it is active.
type Follower interface {
	Follow(*netns.Namespace) error
}

// DeviceFollower is a Plane with work at each device.
type DeviceFollower interface {
	// FollowDevices handles devices of a network namespace that appeared or disappeared; nil is the
	// namespace of the calling thread.
	FollowDevices(ns *netns.Namespace, have State) error
}

// QdiscOwner is a Plane that replaces the qdisc trees of devices. One module at a time owns the
// tree of a device; the packets of a second one may wait in it.
type QdiscOwner interface {
	// QdiscDevices lists the names of the devices on which the plane replaces the tree in a state.
	QdiscDevices(State) []string
	// Yield restores the former trees of devices that want leaves out, and removes the plane from
	// trees that another module owns, before that module takes them. It can be repeated.
	Yield(want State) error
	// CanHost returns nil if packets of another module can wait in the plane's trees until their
	// departure times, [ErrNotShared] if they never can, and otherwise an error that names the
	// missing feature of this host.
	CanHost() error
	// CanNest returns nil if the plane's packets for the device can wait in the tree of another
	// module, [ErrNotShared] if they never can, and otherwise the reason in this state.
	CanNest(s State, device string) error
}

// ErrNotShared is returned by a QdiscOwner that never shares a tree in the requested role.
var ErrNotShared = errors.New("its qdisc tree cannot be shared")

// PlanNoter is a Plane with notes for the user about a future apply.
type PlanNoter interface {
	// PlanNotes returns the notes. It skips unreadable state, which Ready reports.
	PlanNotes(want State) (notes []string)
}

// Settler is a Plane that treats a scope in one of several ways, which other scopes may decide.
type Settler interface {
	// Settle returns the scopes of a state with the treatments that an apply would give them now.
	Settle(State) (State, error)
}

// Outdater is a Plane that treats a scope in one of several ways, by properties of the host.
type Outdater interface {
	// Outdated reports whether an apply of have would treat it in another way than now. Both ways
	// are in place.
	Outdated(have State) (bool, error)
}

// Rebinder is a Plane with a kernel part that rebinds scopes itself.
type Rebinder interface {
	// Holds reports whether the data plane assigns a key to the scope with this number.
	Holds(scope int, key match.Key) (bool, error)
}

// Runner is a Plane with background work while it is active, such as following kernel events.
type Runner interface {
	// Run works until ctx ends. Core restarts it some time after it returns, and after each change
	// of the state. It must not hold the policy lock: other commands apply meanwhile.
	Run(ctx context.Context, have State) error
	// WithoutDaemon returns the warning shown when a policy is applied without a running daemon.
	WithoutDaemon() string
}

// Linter is a Module that warns of probable mistakes in a policy on this host.
type Linter interface {
	Lint(p *policy.Policy) []string
}

// CapabilityLister is a Module with capabilities for weir doctor.
type CapabilityLister interface {
	Capabilities() []Capability
}

// Capability is one ability of a module, with the kernel features that each of its mechanisms
// needs, as "group/name" of kernel/probe. doctor selects the first mechanism with all features.
type Capability struct {
	Name       string
	Mechanisms []Mechanism
	// Optional describes the effect if only the feature Without is missing; %s in it stands for the
	// way to get the feature.
	Optional, Without string
}

// Mechanism is one implementation of a capability.
type Mechanism struct {
	Name     string
	Features []string
}

// ErrForeign is returned by Release if the plane has ended and another owner's programs of the same
// kind are active.
var ErrForeign = bpffs.ErrForeign

// Unsupported is the reason why this host cannot treat a scope.
type Unsupported struct {
	Scope, Key string
	Err        error
}

func (r *Unsupported) Error() string {
	return "scopes." + r.Scope + ": " + r.Key + ": " + r.Err.Error()
}

func (r *Unsupported) Unwrap() error { return r.Err }
