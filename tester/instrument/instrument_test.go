// SPDX-License-Identifier: Apache-2.0

package instrument

import (
	"context"
	"encoding/binary"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"weir/kernel/netns"
	"weir/kernel/packetsock"
	"weir/kernel/rtnl"
	"weir/kernel/testutil"
)

// rig is an instrument on both ends of a veth pair.
type rig struct {
	*Instrument
	near, far *netns.Namespace
	ended     chan string
}

func newRig(t *testing.T) *rig {
	t.Helper()
	r := &rig{near: testutil.Namespace(t, "near"), far: testutil.Namespace(t, "far"), ended: make(chan string, 16)}
	conn, err := rtnl.Open(r.near)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.AddVeth("out", r.far, "in", 1500); err != nil {
		t.Fatal(err)
	}
	other, err := rtnl.Open(r.far)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	for _, err := range []error{conn.SetUp("out"), other.SetUp("in")} {
		if err != nil {
			t.Fatal(err)
		}
	}
	r.Instrument, err = Open([]Port{{"tx", r.near, "out", 1e9}, {"rx", r.far, "in", 1e9}},
		Options{Events: Events{Ended: func(port, reason string) { r.ended <- port + ": " + reason }}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
	return r
}

func (r *rig) apply(t *testing.T, setups map[string]Setup) {
	t.Helper()
	if err := r.Apply(context.Background(), setups); err != nil {
		t.Fatal(err)
	}
}

// counts waits until the analyzer has test frames, and returns its account.
func (r *rig) counts(t *testing.T, frames uint64) *Counts {
	t.Helper()
	var c *Counts
	testutil.Eventually(t, 10*time.Second, "test frames", func() bool {
		s, err := r.State("rx")
		if err != nil || s.Counts == nil {
			t.Fatalf("%+v, %v", s.Counts, err)
		}
		c = s.Counts
		return c.TestPackets >= frames
	})
	return c
}

func frames(dynamic bool, size int, gap uint64) Stream {
	return Stream{Dynamic: dynamic, Size: size, Data: []byte{2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0x88, 0xb5}, Gap: gap}
}

func TestFramesAreCounted(t *testing.T) {
	r := newRig(t)
	r.apply(t, map[string]Setup{"rx": {Analyzer: &Analyzer{}}})
	g := &Generator{Streams: []Stream{frames(true, 128, 9872)}, Total: 1000}
	r.apply(t, map[string]Setup{"tx": {Generator: g}, "rx": {Analyzer: &Analyzer{}}})
	if got := <-r.ended; got != "tx: total frames" {
		t.Error(got)
	}
	c := r.counts(t, 1000)
	if c.TestPackets != 1000 || c.TestOctets != 128_000 || c.Stamped != 1000 || c.SequenceErrors != 0 || c.Samples != 1000 || c.Min == 0 {
		t.Errorf("%+v", c)
	}
	s, err := r.State("tx")
	if err != nil || s.Sent.Frames != 1000 || s.Sent.Octets != 128_000 || s.Sent.Running {
		t.Errorf("%+v, %v", s.Sent, err)
	}
	// a setup without a change leaves the ended generator alone; a changed one starts at 0
	r.apply(t, map[string]Setup{"tx": {Generator: g}, "rx": {Analyzer: &Analyzer{}}})
	again := &Generator{Streams: []Stream{frames(true, 256, 9872)}, Total: 10}
	r.apply(t, map[string]Setup{"tx": {Generator: again}, "rx": {Analyzer: &Analyzer{Capture: &Capture{}}}})
	<-r.ended
	if c := r.counts(t, 10); c.TestPackets != 10 || c.SequenceErrors != 0 || c.TestOctets != 2560 {
		t.Errorf("after a change: %+v", c)
	}
}

func TestUnchangedPortLosesNothing(t *testing.T) {
	r := newRig(t)
	g := &Generator{Streams: []Stream{frames(true, 64, 1000)}}
	r.apply(t, map[string]Setup{"tx": {Generator: g}, "rx": {Analyzer: &Analyzer{}}})
	r.counts(t, 10)
	for range 20 { // the other port's generator changes; its frames arrive at tx
		r.apply(t, map[string]Setup{"tx": {Generator: g}, "rx": {Generator: &Generator{Streams: []Stream{frames(true, 64, 2000)}}, Analyzer: &Analyzer{}}})
		r.apply(t, map[string]Setup{"tx": {Generator: g}, "rx": {Analyzer: &Analyzer{}}})
	}
	before := r.counts(t, 1).TestPackets
	if c := r.counts(t, before+100); c.SequenceErrors != 0 {
		t.Errorf("%+v", c)
	}
}

func TestRejected(t *testing.T) {
	r := newRig(t)
	for _, c := range []struct {
		name, part string
		setup      Setup
	}{
		{"size", "frame-size", Setup{Generator: &Generator{Streams: []Stream{frames(true, 60, 20)}}}},
		{"MTU", "frame-size", Setup{Generator: &Generator{Streams: []Stream{frames(true, 1600, 20)}}}},
		{"epoch", "realtime-epoch", Setup{Generator: &Generator{Streams: []Stream{frames(true, 64, 20)}, Epoch: time.Unix(1, 0)}}},
		{"FCS", "frame-data", Setup{Generator: &Generator{Streams: []Stream{{Size: 64, Data: make([]byte, 64), Gap: 20}}}}},
	} {
		if got := r.Check(map[string]Setup{"tx": c.setup}); got == nil || got.Part != c.part {
			t.Errorf("%s: %+v", c.name, got)
		}
	}
	if got := r.Check(map[string]Setup{"none": {}}); got == nil {
		t.Error("unknown port")
	}
}

// TestCycle sends streams in turn and compares each frame with the model's meaning.
func TestCycle(t *testing.T) {
	r := newRig(t)
	one, two := frames(true, 64, 5000), frames(false, 100, 5000)
	one.Frames, one.StreamGap, one.Burst, one.BurstGap = 3, 20_000, 2, 9000
	one.Modifiers = []Modifier{{Increment, 14, []byte{0xff, 0x0f}, 2}}
	two.Frames, two.StreamGap, two.Data = 2, 30_000, append(two.Data, 1, 2, 3)
	fd := r.receiver(t)
	r.apply(t, map[string]Setup{"tx": {Generator: &Generator{Streams: []Stream{one, two}, Total: 10}}})
	var sizes []int
	var fields []uint16
	var numbers []uint64
	for range 10 {
		frame := make([]byte, 2000)
		n, err := testutil.Read(fd, frame)
		if err != nil {
			t.Fatal(err)
		}
		sizes = append(sizes, n)
		if n == 60 {
			fields = append(fields, binary.BigEndian.Uint16(frame[14:]))
			numbers = append(numbers, binary.BigEndian.Uint64(frame[n-stampSize:]))
		} else if frame[16] != 3 || frame[17] != 0 {
			t.Errorf("% x", frame[:20])
		}
	}
	if diff := cmp.Diff([]int{60, 60, 60, 96, 96, 60, 60, 60, 96, 96}, sizes); diff != "" {
		t.Errorf("sizes (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]uint16{0, 0, 1, 1, 2, 2}, fields); diff != "" {
		t.Errorf("modified fields (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]uint64{0, 1, 2, 5, 6, 7}, numbers); diff != "" {
		t.Errorf("sequence numbers (-want +got):\n%s", diff)
	}
}

// receiver is a packet socket at the far end.
func (r *rig) receiver(t *testing.T) int {
	t.Helper()
	fd, err := packetsock.Open(r.far, unix.SOCK_RAW)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Close(fd) })
	if err := packetsock.Bind(fd, r.ports["rx"].index, 0x88b5); err != nil {
		t.Fatal(err)
	}
	limit := unix.Timeval{Sec: 10}
	if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &limit); err != nil {
		t.Fatal(err)
	}
	return fd
}

func TestFilterAndCapture(t *testing.T) {
	r := newRig(t)
	a := &Analyzer{
		Filter:  &Filter{Offset: 12, Mask: []byte{0xff, 0xff}, Data: []byte{0x88, 0xb5}},
		Capture: &Capture{FrameIndex: 3, Snap: 20, WhenFull: true},
	}
	other := frames(false, 64, 5000)
	other.Data = append([]byte(nil), other.Data...)
	other.Data[13] = 0xb6
	other.Frames = 1
	mine := frames(false, 64, 5000)
	mine.Frames = 1
	r.apply(t, map[string]Setup{"rx": {Analyzer: a}, "tx": {Generator: &Generator{Streams: []Stream{mine, other}, Total: 20}}})
	<-r.ended
	c := r.counts(t, 10)
	if c.TestPackets != 10 || c.Packets < 20 || c.Stamped != 0 || c.Captured != c.Packets-3 {
		t.Errorf("%+v", c)
	}
	kept, err := r.Frames("rx", 5)
	if err != nil || len(kept) != 5 || kept[4].Size != 60 || len(kept[4].Data) != 20 || kept[4].Number != c.Captured-1 {
		t.Errorf("%+v, %v", kept, err)
	}
}
