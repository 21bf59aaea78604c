// SPDX-License-Identifier: Apache-2.0

package domain

import (
	"testing"

	"golang.org/x/sys/unix"

	"weir/internal/fault"
	"weir/kernel/testutil"
	"weir/lab/scenario"
	"weir/lab/topology"
	"weir/lab/topology/labtest"
)

const text = `
version: 1
title: a domain of two nodes
sweep: {mode: [passive, registered, full]}
hosts: [a, b]
routers:
  - name: r
    ioam:
      mode: "${mode}"
      node: 1
      interfaces: {in: {id: 1}, a-link-whose-name-is-long: {id: 2, roles: [ingress, egress], reserve: true}}
      namespaces: {5: {}}
      encapsulate: [{to: b, namespace: 5, trace: [node, timestamps, delay], edge: [sequence], every: 2}]
  - name: s
    ioam:
      mode: "${mode}"
      node: 2
      interfaces: {a-link-whose-name-is-long: {id: 3, roles: [ingress, egress]}, out: {id: 4}}
      namespaces: {5: {remove: true}}
links:
  - {name: in, ends: [a, r], plain: true}
  - {name: a-link-whose-name-is-long, ends: [r, s], plain: true}
  - {name: out, ends: [s, b], plain: true}
phases: [{duration: 1s, flows: [{kind: udp, family: 6, from: a, to: b, rate: 1Mbit}]}]
`

// raise builds a cell of the scenario with its nodes.
func raise(t *testing.T, cell *scenario.Cell) (*topology.Topology, *Domain) {
	t.Helper()
	_, built := labtest.Build(t, cell)
	d, err := Attach(cell, built)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return built, d
}

// exchange sends datagrams from a to b, and waits for each.
func exchange(t *testing.T, cell *scenario.Cell, built *topology.Topology, n int) {
	t.Helper()
	var sockets [2]int
	for i, name := range []string{"a", "b"} {
		at, _ := cell.Address(name, 6)
		if err := built.Nodes[name].Do(func() (err error) {
			if sockets[i], err = unix.Socket(unix.AF_INET6, unix.SOCK_DGRAM, 0); err != nil {
				return err
			}
			return unix.Bind(sockets[i], &unix.SockaddrInet6{Port: 7000, Addr: at.As16()})
		}); err != nil {
			t.Fatal(err)
		}
		defer func() { _ = unix.Close(sockets[i]) }()
	}
	_ = unix.SetsockoptTimeval(sockets[1], unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: 20})
	to, _ := cell.Address("b", 6)
	for i := range n {
		if err := unix.Sendto(sockets[0], []byte{byte(i)}, 0, &unix.SockaddrInet6{Port: 7000, Addr: to.As16()}); err != nil {
			t.Fatal(err)
		}
		got := make([]byte, 2)
		if m, err := testutil.Read(sockets[1], got); err != nil || m != 1 || got[0] != byte(i) {
			t.Fatalf("datagram %d: %d bytes, %v, %v", i, m, got, err)
		}
	}
}

func TestNodesPutInAndTakeOut(t *testing.T) {
	s, err := scenario.Parse("test.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	cells, err := s.Expand()
	if err != nil {
		t.Fatal(err)
	}
	for i := range cells {
		cell := &cells[i]
		mode := cell.Labels["mode"]
		t.Run(mode, func(t *testing.T) {
			testutil.NeedRoot(t)
			if err := Check(cell); fault.Of(err) == fault.Testbed {
				testutil.Need(t, "tcx", err)
			}
			built, d := raise(t, cell)
			if (d == nil) != (mode == scenario.Passive) {
				t.Fatalf("domain %v", d)
			}
			for range 2 {
				if err := d.Begin(); err != nil {
					t.Fatal(err)
				}
				exchange(t, cell, built, 20)
				all, err := d.End()
				if err != nil {
					t.Fatal(err)
				}
				if mode == scenario.Passive {
					if all != nil {
						t.Errorf("%+v", all)
					}
					break
				}
				judge(t, mode, all)
			}
		})
	}
}

func judge(t *testing.T, mode string, all []Status) {
	t.Helper()
	if len(all) != 2 || all[0].Node != "r" || all[1].Node != "s" || all[0].Collected != nil || all[1].Collected == nil {
		t.Fatalf("%+v", all)
	}
	in, out := all[0].Counts, all[1].Counts
	if mode == scenario.Registered {
		if in.Encapsulated+in.Packets+out.Removed+all[1].Collected.Packets != 0 {
			t.Errorf("nodes that are registered alone: %+v, %+v", in, out)
		}
		return
	}
	if in.Packets != 20 || in.Encapsulated != 10 || in.LeftAlone+in.Dropped != 0 || out.Removed != 10 || out.Dropped != 0 || all[1].Collected.Packets != 10 {
		t.Errorf("of 20 packets every second has options: %+v, %+v, %d told", in, out, all[1].Collected.Packets)
	}
	paths := all[1].Collected.Paths()
	if len(paths) != 1 || len(paths[0].Hops) != 2 || paths[0].Hops[0].Node != 1 || paths[0].Hops[1].Node != 2 || paths[0].Hops[0].Link.Count() == 0 {
		t.Errorf("paths %+v", paths)
	}
	if edges := all[1].Edges; len(edges) != 1 || edges[0].Lost != 0 || edges[0].Packets%10 != 0 {
		t.Errorf("edges %+v", edges)
	}
}

func TestNoDomain(t *testing.T) {
	var d *Domain
	status, err := d.End()
	if _, is, err2 := d.Counts("a"); status != nil || err != nil || is || err2 != nil || d.Begin() != nil || d.Close() != nil {
		t.Error("no domain does something")
	}
}
