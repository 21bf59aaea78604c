// SPDX-License-Identifier: Apache-2.0

package cc

import (
	"slices"
	"strings"

	"github.com/cilium/ebpf"
)

// algorithm is one congestion control that comes with Weir: a file declares it, and algorithms
// lists it.
type algorithm struct {
	name string // as people call it
	// about says for the command's help what it is for and what it needs, in lines of 85 characters
	// at most.
	about string
	load  func() (*ebpf.CollectionSpec, error)
	ops   string // the struct_ops map
	// needsECN says that it is worth nothing without ECN, which must be asked for before it is
	// there.
	needsECN bool
	traces   traced
	tune     func(*ebpf.CollectionSpec) error // sets what distinguishes it from others of its object; nil for nothing
}

// traced is what a control tells of its steps.
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

// Algorithms lists what [Install] knows.
func Algorithms() (names []string) {
	for _, a := range algorithms() {
		names = append(names, a.name)
	}
	return names
}

// About describes what [Install] knows, for people: a paragraph each.
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
