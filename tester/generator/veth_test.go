// SPDX-License-Identifier: Apache-2.0

package generator

import (
	"net"
	"net/netip"
	"os"
	"testing"
	"time"

	"weir/kernel/netns"
	"weir/kernel/rtnl"
	"weir/kernel/testutil"
	"weir/tester"
	"weir/tester/analyzer"
	"weir/tester/frame"
)

// rig is a veth pair between two namespaces.
type rig struct {
	near, far *netns.Namespace
	port      Port
}

func newRig(t testing.TB, mtu int) *rig {
	t.Helper()
	r := &rig{near: testutil.Namespace(t, "near"), far: testutil.Namespace(t, "far")}
	conn, err := rtnl.Open(r.near)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.AddVeth("out", r.far, "in", mtu); err != nil {
		t.Fatal(err)
	}
	if err := conn.SetUp("out"); err != nil {
		t.Fatal(err)
	}
	other, err := rtnl.Open(r.far)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	if err := other.SetUp("in"); err != nil {
		t.Fatal(err)
	}
	r.port = Port{Namespace: r.near, Device: "out"}
	return r
}

func (r *rig) analyze(t testing.TB, schedule tester.Schedule) *analyzer.Analyzer {
	t.Helper()
	var ids []uint16
	for _, s := range schedule.Streams {
		ids = append(ids, s.ID)
	}
	a, err := analyzer.Attach(r.far, "in", analyzer.Options{Streams: ids})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := a.Close(); err != nil {
			t.Error(err)
		}
	})
	return a
}

func stream(id uint16, size int) tester.Stream {
	return tester.Stream{ID: id, Stamped: true, Sizes: []tester.SizeShare{{Size: size, Weight: 1}}, Header: tester.Header{
		SourceMAC: net.HardwareAddr{2, 0, 0, 0, 0, 1}, DestinationMAC: net.HardwareAddr{2, 0, 0, 0, 0, 2},
		Source: netip.MustParseAddr("198.18.0.1"), Destination: netip.MustParseAddr("198.19.0.1"),
		SourcePort: 49152, DestinationPort: 50000,
	}}
}

func stream6(id uint16, size int) tester.Stream {
	s := stream(id, size)
	s.Header.Source, s.Header.Destination = netip.MustParseAddr("2001:db8::1"), netip.MustParseAddr("2001:db8::2")
	return s
}

// tagged adds a VLAN tag and a code point to a stream.
func tagged(s tester.Stream) tester.Stream {
	s.Header.VLAN, s.Header.PCP, s.Header.DSCP, s.Header.ECN = 4000, 5, 46, 1
	return s
}

// send runs a schedule to its end.
func (r *rig) send(t testing.TB, mechanism string, schedule tester.Schedule) tester.Generation {
	t.Helper()
	running, err := StartWith(t.Context(), r.port, schedule, mechanism)
	if err != nil {
		t.Fatal(err)
	}
	generation, err := running.Wait()
	if err != nil {
		t.Fatal(err)
	}
	return generation
}

// account expects that every sent frame has arrived, in order and intact.
func account(t testing.TB, a *analyzer.Analyzer, g tester.Generation) {
	t.Helper()
	var sent uint64
	for _, s := range g.Sent {
		sent += s.Frames
	}
	var analysis tester.Analysis
	testutil.Eventually(t, 5*time.Second, "arrival of all frames", func() bool {
		var err error
		if analysis, err = a.Snapshot(); err != nil {
			t.Fatal(err)
		}
		var received uint64
		for _, c := range analysis.Streams {
			received += c.Received
		}
		return received+g.Refused >= sent
	})
	if sent == 0 {
		t.Error("nothing was sent")
	}
	for i, c := range analysis.Streams {
		s := g.Sent[i]
		if c.Stream != s.Stream {
			t.Fatalf("streams %d and %d", c.Stream, s.Stream)
		}
		if g.Refused == 0 && (c.Received != s.Frames || c.WireBytes != s.WireBytes || c.PayloadBytes != s.PayloadBytes || c.Lost != 0) {
			t.Errorf("stream %d: sent %d frames, %d octets on the wire, %d of payload; received %d, %d, %d, lost %d",
				s.Stream, s.Frames, s.WireBytes, s.PayloadBytes, c.Received, c.WireBytes, c.PayloadBytes, c.Lost)
		}
		if c.Duplicates+c.Reordered+c.PayloadErrors+c.OutOfWindow != 0 {
			t.Errorf("stream %d: %+v", s.Stream, c)
		}
		// The clocks of a test kernel's CPUs differ by some microseconds: a frame may arrive before
		// it was sent.
		if c.Delay.Count() != c.Unique || c.NegativeDelays > 0 && os.Getenv("TEST_KERNEL") == "" {
			t.Errorf("stream %d: %d delays of %d frames, %d negative", s.Stream, c.Delay.Count(), c.Unique, c.NegativeDelays)
		}
	}
	if analysis.Unknown != 0 {
		t.Errorf("%d frames of unknown streams", analysis.Unknown)
	}
}

func mixes() []tester.Stream {
	mix := stream(3, 64)
	mix.Sizes = frame.IMIX()
	mix6 := tagged(stream6(4, 88))
	mix6.Sizes = frame.IMIX6()
	odd := stream(5, 65)
	odd.Sizes = append(odd.Sizes, tester.SizeShare{Size: 101, Weight: 1}, tester.SizeShare{Size: 85, Weight: 2})
	return []tester.Stream{stream(0, 64), stream6(1, 84), tagged(stream(2, 68)), mix, mix6, odd, stream(6, 1518)}
}
