// SPDX-License-Identifier: Apache-2.0

package generator

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"weir/kernel/rtnl"
	"weir/kernel/testutil"
	"weir/tester"
	"weir/tester/frame"
)

// mechanisms runs a test with each mechanism that this kernel supports.
func mechanisms(t *testing.T, test func(*testing.T, string)) {
	t.Run(Packet, func(t *testing.T) {
		testutil.NeedRoot(t)
		test(t, Packet)
	})
	t.Run(Live, func(t *testing.T) {
		testutil.NeedRoot(t)
		testutil.Need(t, "live-frames", LiveFrames())
		test(t, Live)
	})
}

// modified are streams with modifiers of all kinds of fields: MAC, DSCP, addresses, ports;
// contiguous and not.
func modified() []tester.Stream {
	four := stream(10, 64)
	four.Modifiers = []tester.Modifier{
		{Action: tester.Increment, Offset: 27, Mask: []byte{0x0f, 0xff, 0xf0}, Repetitions: 3}, // source address, at an odd octet
		{Action: tester.Decrement, Offset: 36, Mask: []byte{0xff, 0xff}},                       // destination port
		{Action: tester.Random, Offset: 30, Mask: []byte{0, 0, 0x0f, 0xff}},                    // destination address
		{Action: tester.Increment, Offset: 15, Mask: []byte{0xfc}},                             // DSCP
	}
	six := tagged(stream6(11, 999))
	six.Modifiers = []tester.Modifier{
		{Action: tester.Random, Offset: 3, Mask: []byte{0x81, 0x18, 0x01}},                       // destination MAC
		{Action: tester.Increment, Offset: 54, Mask: []byte{0xaa, 0x55, 0x0f, 0xf0}},             // destination address, separate bits
		{Action: tester.Decrement, Offset: 57, Mask: []byte{0x0f, 0xff, 0xff}, Repetitions: 100}, // address and source port
	}
	mix := stream(12, 64)
	mix.Sizes = frame.IMIX()
	mix.Modifiers = []tester.Modifier{{Action: tester.Random, Offset: 34, Mask: []byte{0xff, 0xff, 0xff, 0xff}, Repetitions: 2}} // both ports
	return []tester.Stream{four, six, mix}
}

func TestOctetsAreTheOracles(t *testing.T) {
	mechanisms(t, func(t *testing.T, mechanism string) {
		r := newRig(t, 0)
		schedule := tester.Schedule{Duration: 20 * time.Second, Batch: 4}
		for _, s := range append(modified(), mixes()...) {
			s.Frames = 60 + uint64(s.ID)
			s.Gap = 100 * time.Microsecond // slow enough for the captor
			schedule.Streams = append(schedule.Streams, s)
		}
		want := map[uint16]uint64{}
		total := uint64(0)
		for _, s := range schedule.Streams {
			total += s.Frames
		}
		got, g := r.collect(t, mechanism, schedule, int(total))
		if g.Ended != "schedule" {
			t.Errorf("ended by %s", g.Ended)
		}
		plan, err := frame.Plan(schedule)
		if err != nil {
			t.Fatal(err)
		}
		byID := map[uint16]*frame.Planned{}
		for i := range plan {
			byID[plan[i].ID] = &plan[i]
		}
		for i, octets := range got {
			info, err := frame.Parse(octets)
			if err != nil || !info.HasStamp || !info.NetworkChecksum || !info.UDPChecksum {
				t.Fatalf("frame %d: %v, %+v", i, err, info)
			}
			p, n := byID[info.Stamp.Stream], want[info.Stamp.Stream]
			template := p.Next(n)
			oracle := template.Fill(make([]byte, len(template.Octets)), n, info.Stamp.Time, false)
			if diff := cmp.Diff(oracle, octets); diff != "" {
				t.Fatalf("stream %d, frame %d (-oracle +sent):\n%s", p.ID, n, diff)
			}
			want[p.ID]++
		}
		for _, s := range g.Sent {
			if want[s.Stream] != s.Frames || s.Frames != byID[s.Stream].Stream.Frames {
				t.Errorf("stream %d: planned %d, sent %d, arrived %d", s.Stream, byID[s.Stream].Stream.Frames, s.Frames, want[s.Stream])
			}
		}
	})
}

func TestStaticPayload(t *testing.T) {
	mechanisms(t, func(t *testing.T, mechanism string) {
		r := newRig(t, 0)
		s := stream6(1, 200)
		s.Stamped, s.Payload, s.Frames, s.Gap = false, []byte("weir "), 50, 50*time.Microsecond
		got, _ := r.collect(t, mechanism, tester.Schedule{Streams: []tester.Stream{s}, Duration: 20 * time.Second}, 50)
		template, err := frame.Build(s, 200)
		if err != nil {
			t.Fatal(err)
		}
		for i, octets := range got {
			if diff := cmp.Diff(template.Octets, octets); diff != "" {
				t.Fatalf("frame %d:\n%s", i, diff)
			}
		}
	})
}

func TestSequentialStreamsFollowEachOther(t *testing.T) {
	mechanisms(t, func(t *testing.T, mechanism string) {
		r := newRig(t, 0)
		schedule := tester.Schedule{Sequential: true, Duration: 20 * time.Second, Batch: 1}
		for _, id := range []uint16{5, 2, 9} {
			s := stream(id, 64)
			s.Frames = 20 + uint64(id)
			if id != 2 {
				s.Gap = 20 * time.Microsecond
			}
			schedule.Streams = append(schedule.Streams, s)
		}
		got, g := r.collect(t, mechanism, schedule, 76)
		if len(got) != 76 || g.Ended != "schedule" {
			t.Fatalf("%d frames, ended by %s", len(got), g.Ended)
		}
		last := uint64(0)
		for i, octets := range got {
			want, n := uint16(2), i
			switch {
			case i >= 22+25:
				want, n = 9, i-22-25
			case i >= 22:
				want, n = 5, i-22
			}
			info, err := frame.Parse(octets)
			if err != nil || info.Stamp.Stream != want || info.Stamp.Sequence != uint64(n) || info.Stamp.Time < last {
				t.Fatalf("frame %d: %v, stamp %+v, want stream %d number %d", i, err, info.Stamp, want, n)
			}
			last = info.Stamp.Time
		}
	})
}

// left returns the XDP program on a device, 0 for none.
func left(t testing.TB, port Port) uint32 {
	t.Helper()
	conn, err := rtnl.Open(port.Namespace)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	device, err := conn.Device(port.Device)
	if err != nil {
		t.Fatal(err)
	}
	return device.XDP
}
