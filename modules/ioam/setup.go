// SPDX-License-Identifier: Apache-2.0

package ioam

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"

	"weir/core/match"
	"weir/core/module"
	"weir/core/policy"
	"weir/core/selector"
	"weir/internal/yamlfile"
)

// Setup configures a node of an experiment without a policy. Create one with [NewSetup].
type Setup struct {
	items      []policy.Item
	namespaces map[uint16]Namespace
	scopes     []module.Bound
}

// Complain notes a mistake in a file.
type Complain func(at yamlfile.Place, try, format string, args ...any)

// drafted holds the decoded keys of a node.
type drafted struct {
	setup    *Setup
	complain Complain
}

func (d drafted) ComplainAt(at yamlfile.Place, try, format string, args ...any) {
	d.complain(at, try, format, args...)
}

func (d drafted) Declare(name string, _ yamlfile.Fields, t policy.Treatment) {
	d.setup.items = append(d.setup.items, policy.Item{Module: moduleName, Name: name, Treatment: t})
}

// NewSetup reads a node; isInterface reports valid names of interfaces.
func NewSetup(fields yamlfile.Fields, keys *NodeKeys, isInterface func(name string) bool, complain Complain) *Setup {
	s := &Setup{namespaces: map[uint16]Namespace{}}
	readNode(reading{drafted{s, complain}, isInterface}, fields, keys, socketKeys{}, s.namespaces)
	return s
}

// Encapsulate has options put into what the node sends to prefixes: so many copies of those that
// the keys ask for, each in the namespace with the next number if consecutive. The name tells its
// counters.
func (s *Setup) Encapsulate(name string, keys EncapsulationKeys, copies int, consecutive bool, to ...netip.Prefix) error {
	options := append([]*optionKeys{&keys.optionKeys}, keys.Options...)
	keys.Options = slices.Clone(keys.Options)
	for i := 1; i < copies; i++ {
		for _, o := range options {
			another := *o
			if consecutive {
				another.Namespace += number(i)
			}
			keys.Options = append(keys.Options, &another)
		}
	}
	e, err := keys.encapsulation(s.namespaces)
	if err != nil {
		return err
	}
	if e.Tunnel.IsValid() && !declaredIn(s.items).node.Address.IsValid() {
		return fmt.Errorf("tunnel: packets come from the node's address: give address")
	}
	for _, prefix := range to {
		t := &Treatment{Encapsulation: e}
		scope := policy.Scope{Name: name, Selector: policy.Selector{Kind: "prefix", Text: prefix.String()}, Treatments: policy.Treatments{moduleName: t}}
		s.scopes = append(s.scopes, module.Bound{Scope: scope, Index: len(s.scopes), Binding: selector.Binding{Key: match.OfPrefix(prefix)}, Treatment: t})
	}
	return nil
}

// Interfaces are the names of its interfaces.
func (s *Setup) Interfaces() (names []string) {
	for _, i := range declaredIn(s.items).interfaces {
		names = append(names, i.Name)
	}
	return names
}

// Words describe it in short: its interfaces, its namespaces but for 0, and what it puts in.
func (s *Setup) Words() (interfaces, namespaces, puts []string) {
	for _, item := range s.items {
		switch t, _ := item.Treatment.(*Treatment); {
		case t == nil:
		case t.Interface != nil:
			interfaces = append(interfaces, t.Interface.Name+" ("+t.Interface.roles()+")")
		case t.Namespace != nil && t.Namespace.ID != 0 && t.Namespace.Remove:
			namespaces = append(namespaces, fmt.Sprintf("%d ends here", t.Namespace.ID))
		case t.Namespace != nil && t.Namespace.ID != 0:
			namespaces = append(namespaces, fmt.Sprint(t.Namespace.ID))
		}
	}
	for _, b := range s.scopes {
		e := encapsulationOf(b.Scope)
		words := e.summary()
		if n := len(e.Options); n > 2 {
			words = fmt.Sprintf("IOAM %d options from %s on, %s", n, e.Options[0], e.Sampling)
		}
		if !slices.Contains(puts, words) {
			puts = append(puts, words)
		}
	}
	return interfaces, namespaces, puts
}

// MarshalJSON writes what is declared of the node, and what is put into packets to which prefix.
func (s *Setup) MarshalJSON() ([]byte, error) {
	type put struct {
		To            string         `json:"to"`
		Encapsulation *Encapsulation `json:"encapsulation"`
	}
	shown := struct {
		Node        []policy.Item `json:"node"`
		Encapsulate []put         `json:"encapsulate"`
	}{s.items, []put{}}
	for _, b := range s.scopes {
		shown.Encapsulate = append(shown.Encapsulate, put{b.Selector.Text, encapsulationOf(b.Scope)})
	}
	return json.Marshal(shown)
}

// Options is how many options it puts into packets, to all prefixes together.
func (s *Setup) Options() (n int) {
	for _, b := range s.scopes {
		n += len(encapsulationOf(b.Scope).Options)
	}
	return n
}

// IDs are the node's, short and wide.
func (s *Setup) IDs() (short, wide uint64) {
	n := declaredIn(s.items).node
	return uint64(n.ID), n.Wide
}

// Removes says whether a namespace ends at the node.
func (s *Setup) Removes() bool { return declaredIn(s.items).removes() }

// Roles returns the allowed directions of an interface; ok is false if the node ignores it. Roles,
// Ends and Always may be called on nil.
func (s *Setup) Roles(name string) (ingress, egress, is bool) {
	if s == nil {
		return false, false, false
	}
	for _, i := range declaredIn(s.items).interfaces {
		if i.Name == name {
			return i.Ingress, i.Egress, true
		}
	}
	return false, false, false
}

// Ends reports whether options of a namespace end at the node.
func (s *Setup) Ends(namespace uint16) bool { return s != nil && s.namespaces[namespace].Remove }

// Always returns the namespaces of the options of every packet to an address, with a protocol and
// DSCP (64 if unknown). It omits options of only some packets, and ambiguous ones.
func (s *Setup) Always(to netip.Addr, protocol, dscp uint8) (namespaces []uint16) {
	if s == nil {
		return nil
	}
	var e *Encapsulation
	for _, b := range s.scopes {
		if !netip.MustParsePrefix(b.Selector.Text).Contains(to) {
			continue
		}
		if e != nil {
			return nil
		}
		e = encapsulationOf(b.Scope)
	}
	if e == nil || !e.Sampling.all() || e.Port != 0 || e.ofFlow() || e.Protocol != 0 && e.Protocol != protocol || e.DSCP != nil && *e.DSCP != dscp {
		return nil
	}
	for _, o := range e.Options {
		namespaces = append(namespaces, o.Namespace)
	}
	return namespaces
}

// Reserves reports whether the node reserves space for options on some interface.
func (s *Setup) Reserves() bool {
	return slices.ContainsFunc(declaredIn(s.items).interfaces, func(i Interface) bool { return i.Reserve })
}

// state returns the state for the module, with devices for the names of interfaces.
func (s *Setup) state(device func(name string) string) module.State {
	want := module.State{Scopes: s.scopes}
	for _, item := range s.items {
		if t, _ := item.Treatment.(*Treatment); t != nil && t.Interface != nil {
			i := *t.Interface
			i.Name = device(i.Name)
			item.Treatment = &Treatment{Interface: &i}
		}
		want.Host = append(want.Host, item)
	}
	return want
}
