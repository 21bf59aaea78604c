// SPDX-License-Identifier: Apache-2.0

// Package room is the contract between the spine and the rooms that plug into it.
//
// A room contributes keys of a policy's scopes, or sections of the file, and does to the host what
// they say. The spine - policy, core/engine, core/prove, and the commands plan, apply,
// status, top and prove - knows none of them: modules lists them. ARCHITECTURE.md shows how
// to add one, with the toy room of core/engine's tests as the example.
//
// What will bite you: Apply is called again after a crash with the same states, whatever it has
// done before, and with the states the other way round to undo it; so every step of it must be fit
// to be repeated. A plane keeps nothing but what Apply pins or writes: each command opens a new
// one.
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

// Room is one capability as the spine sees it.
type Module interface {
	// Name is short and lower-case: the folder of its pins, its document in the journal, the prefix
	// of its metrics.
	Name() string
	Grammar() policy.Grammar
	// Decode makes a treatment of the JSON that one was written as.
	Decode(text []byte) (policy.Treatment, error)
	// Mechanism says by what the treatment of a scope is done here, in words; how its traffic is
	// told is added by the spine. It is not asked for scopes that wait. Of what is declared of the
	// host it is asked with the treatment alone.
	Mechanism(Bound) string
	// Columns declares what Report tells of each row.
	Columns() Columns
	// Plane returns the room's data plane on a host, whether it is loaded or not. It does nothing
	// yet.
	Plane(Host) Plane
}

// Host is where data planes live. Tests have others than the real one.
type Host struct {
	Pins       string // folder of a bpf file system for the room alone, which need not exist
	Devices    string // one for what all rooms attach to devices (kernel/device), so that their order is kept
	Files      string // folder for the room's files alone, which need not exist, of as long a life as the journal; "" where the room has none to write
	CgroupRoot string
	// Namespaces calls a function for every network namespace that has a process or a name.
	Namespaces func(func(*netns.Namespace) error) error
}

// Bound is a scope that a room treats, and what its selector stands for.
type Bound struct {
	policy.Scope
	// Index is the scope's number for as long as it is in force, from 0 to below MaxScopes; small
	// ones come first.
	Index     int
	Binding   selector.Binding
	Treatment policy.Treatment // the room's own
}

// MaxScopes is how many scopes can be in force at a time.
const MaxScopes = 10_240

// State is what a room is to do, or does: the scopes that it treats in the policy's order, and its
// items of the host.
type State struct {
	Scopes []Bound
	Host   []policy.Item
	// Shared are the devices at which this room, a QdiscOwner, has packets of another one wait in
	// its trees, or its own wait in another's. It is the spine's to fill in, for Ready, InPlace,
	// Apply, Foresee, Yield and FollowDevices.
	Shared map[string]bool
}

// Empty says that there is nothing to do.
func (s State) Empty() bool { return len(s.Scopes) == 0 && len(s.Host) == 0 }

// ByIndex are the scopes by their numbers.
func (s State) ByIndex() map[int]Bound {
	all := make(map[int]Bound, len(s.Scopes))
	for _, b := range s.Scopes {
		all[b.Index] = b
	}
	return all
}

// ByName are the scopes by their names.
func (s State) ByName() map[string]Bound {
	all := make(map[string]Bound, len(s.Scopes))
	for _, b := range s.Scopes {
		all[b.Name] = b
	}
	return all
}

// Assignments are what traffic the scopes stand for; those that wait, and groups, stand for none.
// Of two that stand for the same the later one counts.
func (s State) Assignments() match.Assignments {
	all := match.Assignments{}
	for _, b := range s.Scopes {
		if b.Binding.Kind != "" && b.Binding.Missing == "" {
			all[b.Binding.Key] = b.Index
		}
	}
	return all
}

// Places are where the scopes' cgroups are, or come.
func (s State) Places() map[string]match.Place {
	all := map[string]match.Place{}
	for _, b := range s.Scopes {
		if path := b.Binding.Path; path != "" {
			all[path] = match.Place{Scope: b.Index, ID: b.Binding.Number}
		}
	}
	return all
}

// Orders are the places of the scopes among each other, where one of those that apply to the same
// traffic has to decide; host is what the whole host is told by.
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

// Matchable refuses scopes whose selectors this kernel cannot tell traffic by in programs of a
// type: a *Refusal for each.
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

// Same says whether two ask the same of a data plane.
func (b Bound) Same(other Bound) bool {
	return b.Index == other.Index && b.Binding == other.Binding && b.Scope.Equal(other.Scope)
}

// Plane is a room's data plane on one host. The spine holds the lock of the policy while it calls
// Apply or Release, and calls Release where nothing is left to do.
type Plane interface {
	// Ready refuses, before anything changes, what this host cannot do. A *Refusal names the scope
	// and the key.
	Ready(want State) error
	// InPlace says whether all of what the plane needs to do have is there; its content is
	// believed. Of an empty state it says whether something of the plane's is in force all the
	// same.
	InPlace(have State) (bool, error)
	// Apply leads from one state to another, and returns what a person should know though it is no
	// error. After an error the spine leads back.
	Apply(have, want State) (notes []string, err error)
	// Report tells what has been done so far. It changes nothing.
	Report(have State) (Report, error)
	// Release ends everything and removes every trace, whatever state a crash has left; released
	// says whether there was any.
	Release() (released bool, err error)
}

// Follower is a Plane that has work to do in each network namespace that appears while it is in
// force.
type Follower interface {
	Follow(*netns.Namespace) error
}

// DeviceFollower is a Plane that has work to do at each device.
type DeviceFollower interface {
	// FollowDevices sees to the devices of a network namespace that have come or gone since; nil is
	// the calling thread's.
	FollowDevices(ns *netns.Namespace, have State) error
}

// QdiscOwner is a Plane that replaces the qdisc trees of devices. One module at a time owns the
// tree of a device; the packets of a second one may wait in it.
type QdiscOwner interface {
	// QdiscDevices lists the devices whose trees the plane replaces in a state, by name.
	QdiscDevices(State) []string
	// Yield restores the former trees of devices that want leaves out, and removes the plane from
	// trees that another module owns, before that module takes them. It can be repeated.
	Yield(want State) error
	// CanHost returns nil if packets of another module can wait in the plane's trees until their
	// departure times, [ErrNotShared] if they never can, and otherwise what this host lacks.
	CanHost() error
	// CanNest returns nil if the plane's packets for the device can wait in the tree of another
	// module, [ErrNotShared] if they never can, and otherwise why not in this state.
	CanNest(s State, device string) error
}

// ErrNotShared is the answer of a QdiscOwner that never shares a tree in the role it was asked for.
var ErrNotShared = errors.New("its qdisc tree cannot be shared")

// PlanNoter is a Plane that can say, before anything changes, what a person should know of an
// apply.
type PlanNoter interface {
	// Foresee tells it in words. What cannot be read here is left out: Ready tells why.
	PlanNotes(want State) (notes []string)
}

// Rebinder is a Plane whose part in the kernel may bind scopes anew by itself.
type Rebinder interface {
	// Holds says whether traffic of a key is that of the scope with this number.
	Holds(scope int, key match.Key) (bool, error)
}

// Runner is a Plane with work to do for as long as it is in force, such as to follow what the
// kernel does.
type Runner interface {
	// Run works until ctx ends. It is called again some time after it has returned, for as long
	// as the state is in force, and with the new one when that changes. It holds no lock of the
	// policy: others may apply meanwhile.
	Run(ctx context.Context, have State) error
	// Unkept says what becomes of it where nobody keeps it, for whom has applied it by hand.
	WithoutDaemon() string
}

// Linter is a Room that can tell what of a policy is probably not meant on this host.
type Linter interface {
	Lint(p *policy.Policy) []string
}

// CapabilityLister is a Room that weir doctor tells of.
type CapabilityLister interface {
	Capabilities() []Capability
}

// Capability is one thing that a room does, and the kernel's features that each mechanism for it
// takes: names of kernel/probe as "group/name". The first mechanism whose features are all
// there is used.
type Capability struct {
	Name       string
	Mechanisms []Mechanism
	// Optional says how the room works where only the feature Without is missing; %s in it stands
	// for how to get that.
	Optional, Without string
}

// Mechanism is one way to do something.
type Mechanism struct {
	Name     string
	Features []string
}

// ErrElsewhere says that all of ours has ended, and that somebody else's of the same kind is in
// force.
var ErrForeign = bpffs.ErrForeign

// Refusal is why a scope cannot be treated on this host.
type Unsupported struct {
	Scope, Key string
	Err        error
}

func (r *Unsupported) Error() string {
	return "scopes." + r.Scope + ": " + r.Key + ": " + r.Err.Error()
}

func (r *Unsupported) Unwrap() error { return r.Err }
