// SPDX-License-Identifier: Apache-2.0

// Package selector is the registry of selectors. One file per kind defines its syntax, its
// resolution on this host, the folders to watch for changes, suggestions for mistyped names, and
// the requirements for a process to match it.
package selector

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"weir/core/match"
	"weir/core/policy"
	"weir/core/selector/runtimes"
	"weir/internal/units"
)

// Kind is a kind of selector. Optional functions are marked.
type Kind struct {
	policy.SelectorKind
	// Bind resolves the text on this host.
	Bind func(h *Host, text string) (Binding, error)
	// Watch lists folders with changes that affect selectors of the kind; nil if only a resync
	// detects them.
	Watch func(h *Host, texts []string) []string
	// Near suggests an existing object for a missing one, or ""; optional.
	Near func(h *Host, text string) string
	// Inside returns the requirements for a process to match, or the missing object.
	Inside func(h *Host, text string) (in Inside, missing string, err error)
	// Follow calls changed after each event that may affect a selector of the kind, until ctx ends;
	// nil for kinds with changes that Watch or a resync detects.
	Follow func(ctx context.Context, h *Host, changed func())
	// Speed returns the capacity of the traffic and its description; 0 if unknown. nil is all links
	// of the host.
	Speed func(text string) (units.BitRate, string)
}

// Binding is the object of a selector on this host. It is comparable; a group has the zero value.
type Binding struct {
	match.Key
	// Path is the existing or future cgroup below the root of the v2 hierarchy; "" if unknown.
	Path string `json:"path,omitempty"`
	// More lists further objects of the selector, as JSON; "" for none. See Keys and Cgroups.
	More string `json:"more,omitempty"`
	// Missing describes the missing object for which the scope waits.
	Missing string `json:"missing,omitempty"`
}

// Interface is the key of the kind that matches by device.
const Interface = "interface"

// Inside holds the requirements for traffic of a process to match. The zero value has none.
type Inside struct {
	Everything bool
	Cgroup     string // folder of the cgroup or an ancestor
	User       *uint32
	Mark       uint32
	Namespace  string       // path of its network namespace
	Remote     netip.Prefix // of its destination
	Device     string       // of its traffic
	By         string       // description of the match: "the remote address"
}

// Kinds lists the kinds in display order.
func Kinds() []Kind {
	return []Kind{cgroups, unit, container, user, device, prefix, namespace, mark, host}
}

// Language returns the syntax of the kinds for package policy.
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

// Host resolves selectors on this host and caches lookups: create one per resync.
type Host struct {
	CgroupRoot string
	// Manager resolves units; nil without a service manager.
	Manager Manager
	// Device returns the kernel's name of a device named in the policy; nil for the same name.
	Device func(name string) string
	// Runtimes lists the container runtimes; nil for those of this host.
	Runtimes []runtimes.Runtime
	// RuntimeWait bounds the wait for all answers of the runtimes; 0 is 8 s.
	RuntimeWait time.Duration
	// SubordinateIDs is the file of subordinate user ids, subuid(5); "" for /etc/subuid.
	SubordinateIDs string

	answers map[string]string   // the manager's, by unit
	silent  bool                // the manager does not answer
	units   map[string][]string // unit to paths of its cgroups; nil before the walk

	until      time.Time // of requests to runtimes; zero before the first
	listed     bool      // containers and unlisted are set
	containers []runtimes.Container
	unlisted   error
}

// Manager is a service manager.
type Manager interface {
	// ControlGroup returns the cgroup of a unit below the root; "" without one.
	ControlGroup(unit string) (string, error)
}

// Bind resolves a selector.
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

// Near suggests an existing object for a missing one, or "".
func (h *Host) Near(s policy.Selector) string {
	if k, known := Of(s); known && k.Near != nil {
		return k.Near(h, s.Text)
	}
	return ""
}

// Inside returns the requirements for a process to match a selector.
func (h *Host) Inside(s policy.Selector) (in Inside, missing string, err error) {
	k, known := Of(s)
	if !known {
		return in, "", fmt.Errorf("%s has only the traffic of its members", s)
	}
	return k.Inside(h, s.Text)
}

// Watch lists the folders to watch for the selectors, outer ones first, so that no creation is
// missed.
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

// Speed returns the link capacity available to a selector's traffic, 0 if unknown, and the words
// that precede it in a message, as in "the links of this host carry".
func Speed(s policy.Selector) (units.BitRate, string) {
	if k, known := Of(s); known && k.Speed != nil {
		return k.Speed(s.Text)
	}
	return hardwareSpeed(), "the links of this host carry"
}
