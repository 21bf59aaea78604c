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
	"weir/kernel/netns"
	"weir/modules/ioam/node"
)

// Setup configures a node of an experiment without a policy. Create one with [NewSetup].
type Setup struct {
	items      []policy.Item
	namespaces map[uint16]node.Namespace
	scopes     []module.Bound
}

// Complain records a mistake in a file.
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
	d.setup.items = append(d.setup.items, policy.Item{Module: node.Name, Name: name, Treatment: t})
}

// NewSetup reads a node; isInterface reports valid names of interfaces.
func NewSetup(fields yamlfile.Fields, keys *NodeKeys, isInterface func(name string) bool, complain Complain) *Setup {
	s := &Setup{namespaces: map[uint16]node.Namespace{}}
	readNode(reading{drafted{s, complain}, isInterface}, fields, keys, socketKeys{}, s.namespaces)
	return s
}

// Encapsulate adds an encapsulation for packets to prefixes, with a number of copies of the options
// of the keys. Consecutive copies use consecutive namespaces. The name identifies its counters.
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
	if e.Tunnel.IsValid() && !node.ConfigOf(s.items).Node.Address.IsValid() {
		return fmt.Errorf("tunnel: packets come from the node's address: give address")
	}
	for _, prefix := range to {
		t := &node.Treatment{Encapsulation: e}
		scope := policy.Scope{Name: name, Selector: policy.Selector{Kind: "prefix", Text: prefix.String()}, Treatments: policy.Treatments{node.Name: t}}
		s.scopes = append(s.scopes, module.Bound{Scope: scope, Index: len(s.scopes), Binding: selector.Binding{Key: match.OfPrefix(prefix)}, Treatment: t})
	}
	return nil
}

// Interfaces returns the names of the interfaces.
func (s *Setup) Interfaces() (names []string) {
	for _, i := range node.ConfigOf(s.items).Interfaces {
		names = append(names, i.Name)
	}
	return names
}

// Words describes the interfaces, the namespaces except 0, and the encapsulations.
func (s *Setup) Words() (interfaces, namespaces, puts []string) {
	for _, item := range s.items {
		switch t, _ := item.Treatment.(*node.Treatment); {
		case t == nil:
		case t.Interface != nil:
			interfaces = append(interfaces, t.Interface.Name+" ("+t.Interface.Roles()+")")
		case t.Namespace != nil && t.Namespace.ID != 0 && t.Namespace.Remove:
			namespaces = append(namespaces, fmt.Sprintf("%d ends here", t.Namespace.ID))
		case t.Namespace != nil && t.Namespace.ID != 0:
			namespaces = append(namespaces, fmt.Sprint(t.Namespace.ID))
		}
	}
	for _, b := range s.scopes {
		e := node.EncapsulationOf(b.Scope)
		words := e.Summary()
		if n := len(e.Options); n > 2 {
			words = fmt.Sprintf("IOAM %d options from %s on, %s", n, e.Options[0], e.Sampling)
		}
		if !slices.Contains(puts, words) {
			puts = append(puts, words)
		}
	}
	return interfaces, namespaces, puts
}

// MarshalJSON writes the node, and the encapsulation of each prefix.
func (s *Setup) MarshalJSON() ([]byte, error) {
	type put struct {
		To            string              `json:"to"`
		Encapsulation *node.Encapsulation `json:"encapsulation"`
	}
	shown := struct {
		Node        []policy.Item `json:"node"`
		Encapsulate []put         `json:"encapsulate"`
	}{s.items, []put{}}
	for _, b := range s.scopes {
		shown.Encapsulate = append(shown.Encapsulate, put{b.Selector.Text, node.EncapsulationOf(b.Scope)})
	}
	return json.Marshal(shown)
}

// Options returns the number of options of all encapsulations.
func (s *Setup) Options() (n int) {
	for _, b := range s.scopes {
		n += len(node.EncapsulationOf(b.Scope).Options)
	}
	return n
}

// IDs returns the short and the wide id of the node.
func (s *Setup) IDs() (short, wide uint64) {
	n := node.ConfigOf(s.items).Node
	return uint64(n.ID), n.Wide
}

// Removes reports whether a namespace ends at the node.
func (s *Setup) Removes() bool { return node.ConfigOf(s.items).Removes() }

// Roles returns the allowed directions of an interface; ok is false if the node ignores it. Roles,
// Ends and Always may be called on nil.
func (s *Setup) Roles(name string) (ingress, egress, is bool) {
	if s == nil {
		return false, false, false
	}
	for _, i := range node.ConfigOf(s.items).Interfaces {
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
	var e *node.Encapsulation
	for _, b := range s.scopes {
		if !netip.MustParsePrefix(b.Selector.Text).Contains(to) {
			continue
		}
		if e != nil {
			return nil
		}
		e = node.EncapsulationOf(b.Scope)
	}
	if e == nil || !e.Sampling.All() || e.Port != 0 || e.OfFlow() || e.Protocol != 0 && e.Protocol != protocol || e.DSCP != nil && *e.DSCP != dscp {
		return nil
	}
	for _, o := range e.Options {
		namespaces = append(namespaces, o.Namespace)
	}
	return namespaces
}

// Reserves reports whether the node reserves space for options on some interface.
func (s *Setup) Reserves() bool {
	return slices.ContainsFunc(node.ConfigOf(s.items).Interfaces, func(i node.Interface) bool { return i.Reserve })
}

// Attach makes a network namespace the node; device gives the device of an interface.
func (s *Setup) Attach(ns *netns.Namespace, device func(name string) string) (*node.Attached, error) {
	return node.Attach(ns, s.state(device))
}

// state returns the state for the module, with devices for the names of interfaces.
func (s *Setup) state(device func(name string) string) module.State {
	want := module.State{Scopes: s.scopes}
	for _, item := range s.items {
		if t, _ := item.Treatment.(*node.Treatment); t != nil && t.Interface != nil {
			i := *t.Interface
			i.Name = device(i.Name)
			item.Treatment = &node.Treatment{Interface: &i}
		}
		want.Host = append(want.Host, item)
	}
	return want
}
