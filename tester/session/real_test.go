// SPDX-License-Identifier: Apache-2.0

package session_test

import (
	"context"
	"errors"
	"net/netip"
	"strings"
	"testing"
	"time"

	"weir/internal/fault"
	"weir/kernel/netns"
	"weir/kernel/rtnl"
	"weir/kernel/testutil"
	"weir/tester"
	"weir/tester/session"
)

// cable is a veth pair between two namespaces, with addresses.
type cable struct {
	left, right session.Port
	l, r        *rtnl.Conn
}

func open(t *testing.T, ns *netns.Namespace) *rtnl.Conn {
	t.Helper()
	conn, err := rtnl.Open(ns)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	return conn
}

func newCable(t *testing.T) *cable {
	t.Helper()
	left, right := testutil.Namespace(t, "left"), testutil.Namespace(t, "right")
	c := &cable{
		left: session.Port{Namespace: left, Device: "tg0"}, right: session.Port{Namespace: right, Device: "tg1"},
		l: open(t, left), r: open(t, right),
	}
	if err := errors.Join(
		c.l.AddVeth("tg0", right, "tg1", 0), c.l.SetUp("tg0"), c.r.SetUp("tg1"),
		c.l.AddAddress("tg0", netip.MustParsePrefix("198.18.0.1/24")), c.r.AddAddress("tg1", netip.MustParsePrefix("198.18.0.2/24")),
		c.l.AddAddress("tg0", netip.MustParsePrefix("2001:2::1/64")), c.r.AddAddress("tg1", netip.MustParsePrefix("2001:2::2/64")),
	); err != nil {
		t.Fatal(err)
	}
	testutil.Eventually(t, 5*time.Second, "carrier", func() bool {
		l, errL := c.l.Device("tg0")
		r, errR := c.r.Device("tg1")
		return errL == nil && errR == nil && l.Running && r.Running
	})
	return c
}

// config sends n frames of each stream, by number, so that the counts do not depend on the
// machine's load.
func (c *cable) config(n uint64, headers ...tester.Header) session.Config {
	schedule := tester.Schedule{Duration: 5 * time.Second, Policy: tester.CatchUp}
	for i, h := range headers {
		size := 64
		if h.Source.Is6() {
			size = 84
		}
		schedule.Streams = append(schedule.Streams, tester.Stream{
			ID: uint16(i), Stamped: true, Header: h, Frames: n, Gap: 20 * time.Microsecond, Sizes: []tester.SizeShare{{Size: size, Weight: 1}},
		})
	}
	return session.Config{Directions: []session.Direction{{From: c.left, To: c.right, Schedule: schedule}}, Straggle: 2 * time.Second}
}

// attached counts XDP programs on the two devices.
func (c *cable) attached(t *testing.T) (n int) {
	t.Helper()
	for conn, device := range map[*rtnl.Conn]string{c.l: "tg0", c.r: "tg1"} {
		d, err := conn.Device(device)
		if err != nil {
			t.Fatal(err)
		}
		if d.XDP != 0 {
			n++
		}
	}
	return n
}

func TestEveryFrameIsAccountedForAndNothingStaysAttached(t *testing.T) {
	c := newCable(t)
	four := tester.Header{SourcePort: 1, DestinationPort: 2, DSCP: 46}
	six := tester.Header{Source: netip.IPv6Unspecified(), Destination: netip.IPv6Unspecified(), SourcePort: 1, DestinationPort: 2}
	config := c.config(2000, four, six)
	back := c.config(1000, four).Directions[0]
	back.From, back.To, back.Schedule.Streams[0].ID = c.right, c.left, 9
	config.Directions = append(config.Directions, back)
	a := run(t, config)
	for i, want := range []uint64{2000, 2000, 1000} {
		s := a.Streams[i]
		if s.Sent.Frames != want || s.Received.Received != want || s.Lost != 0 || s.Received.PayloadErrors != 0 {
			t.Errorf("stream %d: sent %d, received %d, lost %d, payload errors %d; want %d sent and received", s.ID, s.Sent.Frames, s.Received.Received, s.Lost, s.Received.PayloadErrors, want)
		}
		// The clocks of a test kernel's CPUs differ by some microseconds: a frame may arrive before
		// it was sent.
		if s.Received.Delay.Count() != want {
			t.Errorf("stream %d: %d delays from %d ns", s.ID, s.Received.Delay.Count(), s.Received.DelayMin)
		}
	}
	if a.Clock != session.OneWay || a.LinkDown {
		t.Errorf("delays %s, link down %v", a.Clock, a.LinkDown)
	}
	if n := c.attached(t); n != 0 {
		t.Errorf("%d XDP programs stay attached", n)
	}
}

func TestPortsThatMustNotOrCannotBeUsed(t *testing.T) {
	c := newCable(t)
	for _, test := range []struct {
		name   string
		change func(t *testing.T, config *session.Config)
		want   string
		try    string
		status fault.Status
	}{
		{"another namespace", func(_ *testing.T, config *session.Config) { config.Directions[0].From.Device = "tg1" },
			"tg1", c.right.Namespace.Name + ":tg1", fault.Usage},
		{"no such device", func(_ *testing.T, config *session.Config) { config.Directions[0].To.Device = "nowhere" }, "nowhere", "ip -n", fault.Usage},
		{"nobody knows the destination", func(_ *testing.T, config *session.Config) {
			config.Directions[0].To = session.Port{Name: "far away"}
		}, "which address far away has", "--destination", fault.Usage},
		{"frame above the MTU", func(_ *testing.T, config *session.Config) {
			config.Directions[0].Schedule.Streams[0].Sizes[0].Size = 2000
		}, "MTU of 1500", "mtu 1982", fault.Usage},
		{"silent next hop", func(_ *testing.T, config *session.Config) {
			config.Directions[0].Schedule.Streams[0].Header.Destination = netip.MustParseAddr("198.18.0.77")
		}, "does not answer", "destination_mac", fault.Failed},
		{"default route", func(t *testing.T, _ *session.Config) {
			if err := c.l.AddRoute(rtnl.Route{Via: netip.MustParseAddr("198.18.0.2"), Device: "tg0"}); err != nil {
				t.Fatal(err)
			}
		}, "carries a default route", "--i-know", fault.Usage},
		{"device down", func(t *testing.T, config *session.Config) {
			config.IKnow = true
			if err := c.l.SetDown("tg0"); err != nil {
				t.Fatal(err)
			}
		}, "is down", "link set tg0 up", fault.Failed},
		{"no carrier", func(t *testing.T, config *session.Config) {
			config.IKnow = true
			if err := errors.Join(c.l.SetUp("tg0"), c.r.SetDown("tg1")); err != nil {
				t.Fatal(err)
			}
		}, "no carrier", "cable", fault.Failed},
	} {
		t.Run(test.name, func(t *testing.T) {
			config := c.config(10, tester.Header{})
			test.change(t, &config)
			_, err := session.Run(context.Background(), config)
			if err == nil || fault.Of(err) != test.status || !strings.Contains(err.Error(), test.want) || !strings.Contains(fault.Advice(err), test.try) {
				t.Errorf("status %d, %v, advice %q; want %d, %q, %q", fault.Of(err), err, fault.Advice(err), test.status, test.want, test.try)
			}
			if n := c.attached(t); n != 0 {
				t.Errorf("%d XDP programs stay attached", n)
			}
		})
	}
}

func TestALinkThatGoesDownIsNoticed(t *testing.T) {
	c := newCable(t)
	config := c.config(0, tester.Header{})
	config.Directions[0].Schedule.Streams[0].Gap = time.Millisecond
	config.Straggle = time.Millisecond
	down := false
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	config.ObserveEvery = 5 * time.Millisecond
	var since time.Time
	config.Observe = func(a session.Account) {
		switch {
		case !down && a.Streams[0].Received.Received > 10:
			down, since = true, time.Now()
			if err := c.r.SetDown("tg1"); err != nil {
				t.Error(err)
			}
		case down && time.Since(since) > 3*session.LookAgain: // the watch polls at least once
			cancel()
		}
	}
	a, err := session.Run(ctx, config)
	if err != nil {
		t.Fatal(err)
	}
	if !a.LinkDown {
		t.Error("the account does not know that the link went down")
	}
	wantNote(t, a, "the link of", "went down")
}

func TestADeviceThatVanishesIsAnError(t *testing.T) {
	c := newCable(t)
	config := c.config(0, tester.Header{})
	config.Directions[0].Schedule.Streams[0].Gap = time.Millisecond
	config.Directions[0].Schedule.Duration = time.Minute
	config.ObserveEvery = 5 * time.Millisecond
	gone := false
	config.Observe = func(a session.Account) {
		if !gone && a.Streams[0].Received.Received > 10 {
			gone = true
			if err := c.l.Delete("tg0"); err != nil {
				t.Error(err)
			}
		}
	}
	began := time.Now()
	_, err := session.Run(context.Background(), config)
	if fault.Of(err) != fault.Failed || !strings.Contains(err.Error(), "disappeared") {
		t.Errorf("%v, want an error that names the device", err)
	}
	if time.Since(began) > 50*time.Second {
		t.Error("the run went on to its end")
	}
}

func TestUnstampedFramesAreForeignAtTheReceiver(t *testing.T) {
	c := newCable(t)
	config := c.config(300, tester.Header{})
	config.Directions[0].Schedule.Streams[0].Stamped = false
	config.Directions[0].Schedule.Streams[0].Payload = []byte{0xca, 0xfe}
	a := run(t, config)
	if s := a.Streams[0]; s.Sent.Frames != 300 || s.Received != nil || a.Foreign < 300 {
		t.Errorf("sent %d, received %v, foreign %d; want 300, none, 300 at least", s.Sent.Frames, s.Received, a.Foreign)
	}
	wantNote(t, a, "without a stamp")
}
