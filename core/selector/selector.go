// SPDX-License-Identifier: Apache-2.0

// Package selector is the registry of selectors: for each kind how it is written, what it stands
// for on this host, where that may come and go, which name was probably meant, and what a process
// must be to belong to it. One file holds one kind.
package selector

import (
	"fmt"
	"net/netip"
	"slices"

	"weir/core/match"
	"weir/core/policy"
	"weir/internal/units"
)

// Kind is one kind of selector. Functions that may be nil say so.
type Kind struct {
	policy.SelectorKind
	// Bind finds out what the text stands for now.
	Bind func(h *Host, text string) (Binding, error)
	// Watch lists folders whose changes may change what texts of the kind stand for; nil where only
	// a resync tells.
	Watch func(h *Host, texts []string) []string
	// Near returns a text that stands for something and was probably meant, or ""; may be nil.
	Near func(h *Host, text string) string
	// Inside says what a process must be for its traffic to be meant, or what is missing.
	Inside func(h *Host, text string) (in Inside, missing string, err error)
	// Speed is what can carry the traffic at most, in words too; 0 if it is not known. Nil is all
	// links of the host.
	Speed func(text string) (units.BitRate, string)
}

// Binding is what a selector stands for on this host, now. It is comparable; a group's is the zero
// value.
type Binding struct {
	match.Key
	// Path is where the cgroup is or will be, below the root of the v2 hierarchy; "" where that is
	// not known.
	Path string `json:"path,omitempty"`
	// Missing says what is not there; the scope waits for it.
	Missing string `json:"missing,omitempty"`
}

// Inside says what a process must be, and where it must send, for its traffic to be a scope's. The
// zero value is any.
type Inside struct {
	Everything bool
	Cgroup     string // folder that it must be in or below
	User       *uint32
	Mark       uint32
	Namespace  string       // path of the network namespace that its sockets must be of
	Remote     netip.Prefix // that it must send to
	Device     string       // that the traffic must pass
	By         string       // what tells it, in words: "the remote address"
}

// Kinds lists the kinds, in the order in which messages name them.
func Kinds() []Kind {
	return []Kind{cgroups, unit, user, device, prefix, namespace, mark, host}
}

// Language lists the kinds as far as the policy's file goes.
func Language() (all []policy.SelectorKind) {
	for _, k := range Kinds() {
		all = append(all, k.SelectorKind)
	}
	return all
}

// Of returns the kind of a selector; a group has none.
func Of(s policy.Selector) (Kind, bool) {
	all := Kinds()
	i := slices.IndexFunc(all, func(k Kind) bool { return k.Key == s.Kind })
	if i < 0 {
		return Kind{}, false
	}
	return all[i], true
}

// Host is this host as selectors see it. What was looked up is kept: make one for each resync.
type Host struct {
	CgroupRoot string
	// Manager says where the service manager has put a unit; nil where there is none.
	Manager Manager
	answers map[string]string   // of the manager, by unit
	silent  bool                // nobody listens
	units   map[string][]string // unit to the paths of its cgroups; nil before the walk
}

// Manager is a service manager.
type Manager interface {
	// ControlGroup is a unit's cgroup, as a path below the root; "" while it has none.
	ControlGroup(unit string) (string, error)
}

// Bind finds out what a selector stands for.
func (h *Host) Bind(s policy.Selector) (Binding, error) {
	if s.Kind == policy.Group {
		return Binding{}, nil
	}
	k, known := Of(s)
	if !known {
		return Binding{}, fmt.Errorf("bind scope: unknown selector %q", s.Kind)
	}
	return k.Bind(h, s.Text)
}

// Near returns what is there and was probably meant, or "".
func (h *Host) Near(s policy.Selector) string {
	if k, known := Of(s); known && k.Near != nil {
		return k.Near(h, s.Text)
	}
	return ""
}

// Inside says what a process must be to belong to a selector.
func (h *Host) Inside(s policy.Selector) (in Inside, missing string, err error) {
	k, known := Of(s)
	if !known {
		return in, "", fmt.Errorf("%s has no traffic but its members'", s)
	}
	return k.Inside(h, s.Text)
}

// Watch lists the folders in which what the selectors stand for may come and go, outer ones first,
// so that none comes unseen in between.
func (h *Host) Watch(all []policy.Selector) []string {
	texts := map[string][]string{}
	for _, s := range all {
		texts[s.Kind] = append(texts[s.Kind], s.Text)
	}
	var folders []string
	for _, k := range Kinds() {
		if k.Watch != nil && len(texts[k.Key]) > 0 {
			folders = append(folders, k.Watch(h, texts[k.Key])...)
		}
	}
	slices.Sort(folders)
	return slices.Compact(folders)
}

// Speed is what can carry a selector's traffic at most, and who, in words; 0 if it is not known.
func Speed(s policy.Selector) (units.BitRate, string) {
	if k, known := Of(s); known && k.Speed != nil {
		return k.Speed(s.Text)
	}
	return hardwareSpeed(), "the links of this host carry"
}
