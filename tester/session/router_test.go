// SPDX-License-Identifier: Apache-2.0

package session_test

import (
	"errors"
	"net/netip"
	"testing"
	"time"

	"weir/kernel/rtnl"
	"weir/kernel/sysctl"
	"weir/kernel/testutil"
	"weir/tester"
	"weir/tester/session"
)

// A router made of a kernel resolves hosts behind the receiving port, which has no address: only
// the tester can answer.
func TestARouterFindsTheHostsOfTheStreams(t *testing.T) {
	left, dut, right := testutil.Namespace(t, "left"), testutil.Namespace(t, "dut"), testutil.Namespace(t, "right")
	l, d, r := open(t, left), open(t, dut), open(t, right)
	prefix := netip.MustParsePrefix
	if err := errors.Join(
		l.AddVeth("tg0", dut, "in", 0), r.AddVeth("tg1", dut, "out", 0),
		l.SetUp("tg0"), d.SetUp("in"), d.SetUp("out"), r.SetUp("tg1"),
		l.AddAddress("tg0", prefix("198.18.0.2/24")), d.AddAddress("in", prefix("198.18.0.1/24")), d.AddAddress("out", prefix("198.19.0.1/24")),
		l.AddAddress("tg0", prefix("2001:2::2/64")), d.AddAddress("in", prefix("2001:2::1/64")), d.AddAddress("out", prefix("2001:2:0:1::1/64")),
		l.AddRoute(rtnl.Route{To: prefix("198.19.0.0/24"), Via: netip.MustParseAddr("198.18.0.1"), Device: "tg0"}),
		l.AddRoute(rtnl.Route{To: prefix("2001:2:0:1::/64"), Via: netip.MustParseAddr("2001:2::1"), Device: "tg0"}),
		sysctl.Set(dut, "net.ipv4.ip_forward", "1"), sysctl.Set(dut, "net.ipv6.conf.all.forwarding", "1"),
	); err != nil {
		t.Fatal(err)
	}
	testutil.Eventually(t, 10*time.Second, "carrier", func() bool {
		a, errA := l.Device("tg0")
		b, errB := r.Device("tg1")
		return errA == nil && errB == nil && a.Running && b.Running
	})
	const frames, hosts = 160, 16
	streams := []tester.Header{{Destination: netip.MustParseAddr("198.19.0.16")}, {Destination: netip.MustParseAddr("2001:2:0:1::10"), Source: netip.IPv6Unspecified()}}
	schedule := tester.Schedule{Duration: 5 * time.Second, Policy: tester.CatchUp}
	for i, h := range streams {
		last := 14 + 16 + 3 // of the destination
		size := 64
		if h.Destination.Is6() {
			last, size = 14+24+15, 84
		}
		schedule.Streams = append(schedule.Streams, tester.Stream{ID: uint16(i), Stamped: true, Header: h, Frames: frames, Gap: time.Millisecond,
			Sizes:     []tester.SizeShare{{Size: size, Weight: 1}},
			Modifiers: []tester.Modifier{{Action: tester.Increment, Offset: last, Mask: []byte{hosts - 1}}}})
	}
	from := session.Port{Namespace: left, Device: "tg0", Peer: &session.Port{Namespace: dut, Device: "in"}}
	a := run(t, session.Config{Straggle: 3 * time.Second,
		Directions: []session.Direction{{From: from, To: session.Port{Namespace: right, Device: "tg1"}, Schedule: schedule}}})
	for _, s := range a.Streams {
		if s.Sent.Frames != frames || s.Received.Unique != frames || s.Lost != 0 {
			t.Errorf("stream %d: sent %d, received %d, lost %d", s.ID, s.Sent.Frames, s.Received.Unique, s.Lost)
		}
	}
	if a.Neighbours == nil || a.Neighbours.ARP < hosts || a.Neighbours.ND < hosts || a.Neighbours.Beyond != 0 || a.Neighbours.Unsent != 0 {
		t.Errorf("asked: %+v", a.Neighbours)
	}
	wantNote(t, a, "ARP requests")
}
