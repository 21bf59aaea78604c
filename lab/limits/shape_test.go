// SPDX-License-Identifier: Apache-2.0

package limits

import (
	"fmt"
	"net"
	"os"
	"testing"

	"weir/internal/child"
	"weir/kernel/cgroup"
	"weir/kernel/device"
	"weir/kernel/testutil"
	"weir/lab/scenario"
	"weir/lab/topology"
	"weir/lab/topology/labtest"
)

func TestMain(m *testing.M) {
	child.Main(child.Parts{cgroup.SocketsPart: cgroup.ServeSockets})
	os.Exit(m.Run())
}

const behindARouter = `
version: 1
title: shaped limits
hosts: [a, b]
routers: [r]
links:
  - {name: in, ends: [a, r], plain: true}
  - {name: out, ends: [r, b], plain: true}
limits:
  - {name: forwarded, host: r, link: out, mechanism: shape, rate: 10Mbit}
  - {name: sent, host: a, mechanism: shape, rate: 20Mbit}
  - {name: received, host: b, direction: ingress, mechanism: shape, rate: 30Mbit}
phases: [{duration: 1s, flows: [{name: f, kind: udp, from: a, to: b, rate: 1Mbit}]}]
`

// Shapers attach to devices of hosts and routers, count packets, and leave no pins.
func TestDelayIsAtDevices(t *testing.T) {
	testutil.NeedRoot(t)
	s, err := scenario.Parse("f.yaml", []byte(behindARouter))
	if err != nil {
		t.Fatal(err)
	}
	cells, err := s.Expand()
	if err != nil {
		t.Fatal(err)
	}
	cell := &cells[0]
	testutil.Need(t, "delay", Check(cell.Limits))
	lab, built := labtest.Build(t, cell)
	imposed, err := Impose(t.Context(), lab, cell.Limits, built)
	if err != nil {
		t.Fatal(err)
	}
	if imposed.Group("a", "f") == nil || imposed.Group("b", "f") == nil {
		t.Error("sockets of limited hosts are in no cgroup, where they would be paced")
	}
	const n = 20
	send(t, cell, built, n)
	all, err := imposed.Read()
	if err != nil || len(all) != 3 {
		t.Fatalf("%d limits, %v", len(all), err)
	}
	for _, s := range all {
		if s.Packets < n || s.Refused != 0 {
			t.Errorf("%s: %+v", s.Limit.Name, s)
		}
	}
	if err := imposed.Close(); err != nil {
		t.Error(err)
	}
	for _, end := range built.Ends {
		_ = built.Nodes[end.Node].Do(func() error {
			if found, err := device.Attached(nil, end.Device, "limit", ""); err != nil || len(found) > 0 {
				t.Errorf("%s of %s still has %d programs, %v", end.Device, end.Node, len(found), err)
			}
			return nil
		})
	}
}

// send sends datagrams from a to b, and waits for them.
func send(t *testing.T, cell *scenario.Cell, built *topology.Topology, n int) {
	t.Helper()
	address, _ := cell.Address("b", 4)
	var receiver net.PacketConn
	var sender net.Conn
	err := built.Nodes["b"].Do(func() (err error) {
		receiver, err = net.ListenPacket("udp4", net.JoinHostPort(address.String(), "0"))
		return err
	})
	if err == nil {
		defer func() { _ = receiver.Close() }()
		err = built.Nodes["a"].Do(func() (err error) {
			sender, err = net.Dial("udp4", receiver.LocalAddr().String())
			return err
		})
	}
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = sender.Close() }()
	for i := range n {
		if _, err := fmt.Fprint(sender, i); err != nil {
			t.Fatal(err)
		}
		if _, _, err := receiver.ReadFrom(make([]byte, 9)); err != nil {
			t.Fatal(err)
		}
	}
}
