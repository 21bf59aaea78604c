// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"slices"
	"strings"
	"testing"
)

const nodes = `version: 1
title: x
sweep: {mode: [passive, registered, full]}
hosts: [a, b]
routers:
  - name: r
    ioam:
      mode: "${mode}"
      node: 7
      interfaces: {in: {id: 1}, out: {id: 2, roles: [ingress, egress], reserve: true}}
      namespaces: {5: {remove: true}, 6: {}}
      encapsulate: [{to: b, namespace: 5, trace: [node, delay], copies: 2, consecutive: true, every: 10}]
links: [{name: in, ends: [a, r]}, {name: out, ends: [r, b]}]
phases: [{duration: 1s, flows: [{kind: udp, family: 6, from: a, to: b, rate: 1Mbit}]}]
`

func TestNodesOfADomain(t *testing.T) {
	s, err := Parse("f.yaml", []byte(nodes))
	if err != nil {
		t.Fatal(err)
	}
	cells, err := s.Expand()
	if err != nil {
		t.Fatal(err)
	}
	for i, mode := range []string{Passive, Registered, Full} {
		n := cells[i].Nodes[2].IOAM
		if n == nil || n.Mode != mode || n.On() != (mode != Passive) || !n.Collect {
			t.Fatalf("%s: %+v", mode, n)
		}
		if got := n.Setup.Interfaces(); !slices.Equal(got, []string{"in", "out"}) || !n.Setup.Removes() || !n.Setup.Reserves() {
			t.Errorf("%s: interfaces %v, removes %t, reserves %t", mode, got, n.Setup.Removes(), n.Setup.Reserves())
		}
		want := 0
		if mode == Full {
			want = 2 // copies, to b's only address
		}
		if got := n.Setup.Options(); got != want {
			t.Errorf("%s: %d options, want %d", mode, got, want)
		}
	}
	if cells[0].Nodes[0].IOAM.On() || cells[0].Nodes[0].IOAM != nil {
		t.Error("a host that says nothing is a node")
	}
}

func TestMistakesOfNodes(t *testing.T) {
	for _, c := range []struct{ name, old, new, want string }{
		{"link", "in: {id: 1}", "inn: {id: 1}", `routers[0].ioam.interfaces: no link "inn" ends at r (did you mean "in"?)`},
		{"id", "node: 7", "node: 0x1000000", "f.yaml:9:13: routers[0].ioam.node: 16777216 has more than 24 bits"},
		{"role", "roles: [ingress, egress]", "roles: [outgress]", `routers[0].ioam.interfaces.out.roles: "outgress" is neither ingress nor egress`},
		{"field", "trace: [node, delay]", "trace: [node, delai]", `routers[0].ioam.encapsulate[0]: trace: there is no field "delai" (did you mean "delay"?)`},
		{"namespace", "copies: 2", "copies: 3", "routers[0].ioam.encapsulate[0]: the node does not know namespace 7"},
		{"copies", "copies: 2", "copies: 17", "routers[0].ioam.encapsulate[0].copies: 17 is outside 1 to 16"},
		{"destination", "{to: b,", "{to: c,", `routers[0].ioam.encapsulate[0].to: there is no host or router "c"`},
		{"mode", "[passive, registered, full]", "[idle]", `routers[0].ioam.mode: "idle" is not one of passive, registered, full`},
		{"fast path", "    ioam:", "    forwarding: xdp\n    ioam:", "routers[0].ioam: by xdp packets pass the node's programs by"},
		{"key", "node: 7", "nod: 7", `unknown key "nod" in routers[0].ioam (did you mean "node"?)`},
		{"interfaces", "interfaces: {in: {id: 1}, out: {id: 2, roles: [ingress, egress], reserve: true}}", "interfaces: {}", "routers[0].ioam: a node without interfaces does nothing"},
	} {
		t.Run(c.name, func(t *testing.T) {
			text := strings.Replace(nodes, c.old, c.new, 1)
			if text == nodes {
				t.Fatal("nothing is replaced")
			}
			if _, err := Parse("f.yaml", []byte(text)); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v\nwant %s", err, c.want)
			}
		})
	}
}

// two is a domain of two nodes; the second ends its namespace.
const two = `version: 1
title: x
hosts: [a, b]
routers:
  - name: r
    ioam:
      node: 7
      interfaces: {in: {id: 1}, path: {id: 2, roles: [ingress, egress]}}
      namespaces: {5: {}}
      encapsulate: [{to: b, namespace: 5, trace: [node]}]
  - name: s
    ioam:
      node: 8
      interfaces: {path: {id: 3, roles: [ingress, egress]}, out: {id: 4}}
      namespaces: {5: {remove: true}}
links: [{name: in, ends: [a, r]}, {name: path, ends: [r, s]}, {name: out, ends: [s, b]}]
phases: [{duration: 1s, flows: [{kind: udp, family: 6, from: a, to: b, rate: 1Mbit}]}]
`

// replaced parses the scenario of two nodes with lines replaced: old, new, old, new.
func replaced(t *testing.T, pairs ...string) error {
	t.Helper()
	text := strings.NewReplacer(pairs...).Replace(two)
	if text == two && len(pairs) > 0 {
		t.Fatal("nothing is replaced")
	}
	_, err := Parse("f.yaml", []byte(text))
	return err
}

func TestNodesHaveIDsOfTheirOwn(t *testing.T) {
	for _, c := range []struct {
		name, old, new, want string
	}{
		{"same", "node: 8", "node: 7", "f.yaml:13:13: routers[1].ioam.node: 7 is the id of r too: traces could not distinguish them"},
		{"wide", "node: 8", "node: 8\n      wide: 7", "f.yaml:14:13: routers[1].ioam.wide: 7 is the id of r too"},
		{"passive", "node: 8", "node: 7\n      mode: passive", "routers[1].ioam.node: 7 is the id of r too"},
		{"zero", "node: 8", "node: 0", "f.yaml:13:13: routers[1].ioam.node: 0 is the id of a node without one in traces"},
		{"all ones", "node: 8", "node: 0xffffff", "routers[1].ioam.node: 0xffffff, all ones, means an unknown id"},
		{"interfaces", "out: {id: 4}", "out: {id: 3}", "f.yaml:14:71: routers[1].ioam.interfaces.out.id: 3 is also the id of path"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if err := replaced(t, c.old, c.new); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v\nwant %s", err, c.want)
			}
		})
	}
	if err := replaced(t); err != nil {
		t.Error(err)
	}
	if err := replaced(t, "id: 3", "id: 1"); err != nil {
		t.Errorf("interfaces of two nodes with one id: %v", err)
	}
}
