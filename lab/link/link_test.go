// SPDX-License-Identifier: Apache-2.0

package link_test

import (
	"context"
	"errors"
	"math"
	"testing"
	"time"

	"weir/internal/fault"
	"weir/kernel/ethtool"
	"weir/kernel/netns"
	"weir/kernel/rtnl"
	"weir/kernel/sysctl"
	"weir/kernel/tc"
	"weir/kernel/testutil"
	"weir/lab/link"
	"weir/lab/link/loss"
	"weir/lab/link/rawsock"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestCheckDirection(t *testing.T) {
	for _, good := range []link.Direction{
		{},
		{Rate: 1e9, Delay: time.Second, Jitter: time.Second, Shape: link.Pareto, Reorder: 1, Duplicate: 1, Corrupt: 1},
		{Loss: loss.Of(loss.EveryNth{Nth: 1})},
		{Loss: loss.Of(loss.Gilbert{P: 1, R: 0.5, H: 1})},
	} {
		if err := link.CheckDirection(good); err != nil {
			t.Errorf("%+v: %v", good, err)
		}
	}
	for _, bad := range []link.Direction{
		{Delay: -1}, {Jitter: -1}, {Reorder: 1.01}, {Duplicate: -0.1}, {Corrupt: math.NaN()}, {Shape: "poisson"},
		{Queue: link.Queue{Packets: -1}}, {Loss: loss.Loss{Model: "some"}}, {Loss: loss.Of(loss.EveryNth{})},
		{Loss: loss.Of(loss.Independent{Probability: 1.5})}, {Loss: loss.Of(loss.Gilbert{H: 2})},
	} {
		if err := link.CheckDirection(bad); fault.Of(err) != fault.Usage {
			t.Errorf("%+v: %v", bad, err)
		}
	}
}

// pair makes a veth pair between two namespaces, both ends up.
func pair(t *testing.T) (a, b *netns.Namespace) {
	t.Helper()
	a, b = testutil.Namespace(t, "a"), testutil.Namespace(t, "b")
	for i, ns := range []*netns.Namespace{a, b} {
		conn, err := rtnl.Open(ns)
		must(t, err)
		defer conn.Close()
		if i == 0 {
			must(t, conn.AddVeth("dev.0", b, "dev.0", 0))
		}
		must(t, conn.SetUp("dev.0"))
	}
	return a, b
}

func TestPrepareMakesAHostsEnd(t *testing.T) {
	a, _ := pair(t)
	must(t, link.Prepare(a, "dev.0"))
	features, err := ethtool.Features(a, "dev.0")
	must(t, err)
	for name, want := range link.HostOffloads() {
		if got, known := features[name]; known && got != want {
			t.Errorf("%s is %v", name, got)
		}
	}
	conn, err := tc.Open(a)
	must(t, err)
	defer conn.Close()
	qdiscs, err := conn.List("dev.0")
	must(t, err)
	if len(qdiscs) != 1 || qdiscs[0].Kind != "pfifo" {
		t.Errorf("the qdiscs are %+v", qdiscs)
	}
	if value, err := sysctl.Get(a, "net/ipv6/conf/dev.0/accept_dad"); err != nil || value != "0" {
		t.Errorf("accept_dad is %q, %v", value, err)
	}
}

func TestDropsAreRead(t *testing.T) {
	a, b := pair(t)
	before, err := link.ReadDrops(a, "dev.0")
	must(t, err)
	s, err := rawsock.Open(a, "dev.0", rawsock.None)
	must(t, err)
	defer func() { _ = s.Close() }()
	conn, err := rtnl.Open(b)
	must(t, err)
	defer conn.Close()
	must(t, conn.SetMTU("dev.0", 500)) // its peer still sends frames of 1000 octets, which it does not take
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	frame := append([]byte{2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 0x88, 0xb5}, make([]byte, 986)...)
	if err := s.Send(ctx, frame); !errors.Is(err, context.DeadlineExceeded) { // it tries again as long as it may
		t.Errorf("sending ended with %v", err)
	}
	after, err := link.ReadDrops(a, "dev.0")
	must(t, err)
	if after.Transmit == before.Transmit {
		t.Error("no frame is counted as lost")
	}
	if _, err := link.ReadDrops(a, "no-such"); err == nil {
		t.Error("a missing device has drops")
	}
}
