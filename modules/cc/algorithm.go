// SPDX-License-Identifier: Apache-2.0

package cc

import (
	"slices"
	"strings"

	"github.com/cilium/ebpf"
)

// algorithm is a congestion control of Weir: one file declares it, and algorithms lists it.
type algorithm struct {
	name string // as people call it
	// about is its description for the help text, in lines of at most 85 characters.
	about string
	load  func() (*ebpf.CollectionSpec, error)
	ops   string // the struct_ops map
	// needsECN reports that it requires ECN, which must be negotiated.
	needsECN bool
	traces   traced
	tune     func(*ebpf.CollectionSpec) error // sets its parameters in a shared object; may be nil
}

// traced describes the trace events of a control.
type traced struct {
	events   string // the ring buffer
	constant string // switches it on
	decode   any    // func([]byte) (E, error), where E is the type of its events
}

// algorithms lists the congestion controls that come with Weir.
func algorithms() []algorithm { return []algorithm{dctcp(), ledbat(), scavenger()} }

// algorithmOf finds one by its name.
func algorithmOf(name string) (algorithm, bool) {
	all := algorithms()
	i := slices.IndexFunc(all, func(a algorithm) bool { return a.name == name })
	if i < 0 {
		return algorithm{}, false
	}
	return all[i], true
}

// Algorithms lists the names for [Install].
func Algorithms() (names []string) {
	for _, a := range algorithms() {
		names = append(names, a.name)
	}
	return names
}

// About describes the algorithms, one paragraph each.
func About() string {
	var all []string
	for _, a := range algorithms() {
		all = append(all, a.about)
	}
	return strings.Join(all, "\n\n")
}

// usualPrefix begins the names that sockets choose the algorithms by.
const usualPrefix = "weir_"

// DefaultName is the name that an algorithm is installed under; any other name stays as it is.
func DefaultName(name string) string {
	if _, known := algorithmOf(name); known {
		return usualPrefix + name
	}
	return name
}
