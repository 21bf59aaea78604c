// SPDX-License-Identifier: Apache-2.0

package fastpath

import (
	"net/netip"
	"testing"

	"weir/internal/fault"
	"weir/kernel/netns"
	"weir/kernel/testutil"
	"weir/lab/scenario"
	"weir/lab/topology"
	"weir/lab/topology/labtest"

	"golang.org/x/sys/unix"
)

const text = `
version: 1
title: a router
sweep: {forwarding: [kernel, xdp, flower]}
hosts: [{name: a, offloads: {tx: false}}, {name: b, offloads: {tx: false}}]
routers: [{name: r, forwarding: "${forwarding}"}]
links: [{ends: [a, r], plain: true}, {ends: [r, b], plain: true}]
phases: [{duration: 1s, flows: [{kind: udp, from: a, to: b, rate: 1Mbit}]}]
`

// raise builds a cell of the scenario with the fast paths of its routers.
func raise(t *testing.T, cell *scenario.Cell) (*topology.Topology, *Paths) {
	t.Helper()
	_, built := labtest.Build(t, cell)
	paths, err := Attach(cell, built)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := paths.Close(); err != nil {
			t.Error(err)
		}
	})
	return built, paths
}

// socket makes a datagram socket in a namespace.
func socket(t *testing.T, ns *netns.Namespace, at netip.AddrPort) (fd int) {
	t.Helper()
	if err := ns.Do(func() (err error) {
		if fd, err = unix.Socket(unix.AF_INET, unix.SOCK_DGRAM, 0); err != nil {
			return err
		}
		return unix.Bind(fd, &unix.SockaddrInet4{Port: int(at.Port()), Addr: at.Addr().As4()})
	}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Close(fd) })
	return fd
}

// A router forwards by its node's fast path, and an idle fast path is reported.
func TestRoutersForwardByWhatTheyAreTo(t *testing.T) {
	cells, err := cellsOf(text)
	if err != nil {
		t.Fatal(err)
	}
	for i := range cells {
		cell := &cells[i]
		t.Run(cell.Labels["forwarding"], func(t *testing.T) {
			err := Check(cell)
			if fault.Of(err) == fault.Testbed {
				testutil.Need(t, cell.Labels["forwarding"], err)
			}
			built, paths := raise(t, cell)
			fast := cell.Labels["forwarding"] != "kernel"
			if by := paths.By("r"); fast && by != cell.Labels["forwarding"] || !fast && by != "" {
				t.Errorf("the router forwards by %q", by)
			}
			if err := paths.Forwards(); (err != nil) != fast {
				t.Errorf("before anything is sent: %v", err)
			}
			from, _ := cell.Address("a", 4)
			to, _ := cell.Address("b", 4)
			in := socket(t, built.Nodes["b"], netip.AddrPortFrom(to, 7000))
			out := socket(t, built.Nodes["a"], netip.AddrPortFrom(from, 7000))
			const n = 20
			for i := range n {
				if err := unix.Sendto(out, []byte{byte(i)}, 0, &unix.SockaddrInet4{Port: 7000, Addr: to.As4()}); err != nil {
					t.Fatal(err)
				}
				got := make([]byte, 2)
				if _, _, err := unix.Recvfrom(in, got, 0); err != nil || got[0] != byte(i) {
					t.Fatalf("datagram %d: %v, %v", i, got, err)
				}
			}
			if err := paths.Forwards(); err != nil {
				t.Error(err)
			}
			if fast {
				if got, err := paths.attached["r"].Forwarded(); err != nil || got != n {
					t.Errorf("%d of %d datagrams went by %s, %v", got, n, paths.By("r"), err)
				}
			}
		})
	}
}

func TestAHostHasNoForwarding(t *testing.T) {
	if _, err := cellsOf("version: 1\ntitle: x\nhosts: [{name: a, forwarding: xdp}, b]\nlinks: [{ends: [a, b]}]\nphases: [{duration: 1s}]\n"); err == nil {
		t.Error("a host that forwards was taken")
	}
}

func cellsOf(text string) ([]scenario.Cell, error) {
	s, err := scenario.Parse("test.yaml", []byte(text))
	if err != nil {
		return nil, err
	}
	return s.Expand()
}
