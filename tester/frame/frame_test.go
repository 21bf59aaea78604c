// SPDX-License-Identifier: Apache-2.0

package frame

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"

	"weir/internal/fault"
	"weir/kernel/testutil"
	"weir/tester"
)

func stream(size int) tester.Stream {
	return tester.Stream{ID: 7, Stamped: true, Sizes: []tester.SizeShare{{Size: size, Weight: 1}}, Header: tester.Header{
		SourceMAC: net.HardwareAddr{2, 0, 0, 0, 0, 1}, DestinationMAC: net.HardwareAddr{2, 0, 0, 0, 0, 2},
		Source: netip.MustParseAddr("198.18.0.1"), Destination: netip.MustParseAddr("198.19.0.1"),
		SourcePort: 49152, DestinationPort: 50001, DSCP: 46, ECN: 1, TTL: 17,
	}}
}

func stream6(size int) tester.Stream {
	s := stream(size)
	s.Header.Source, s.Header.Destination = netip.MustParseAddr("2001:db8::1"), netip.MustParseAddr("2001:db8::2")
	return s
}

func tagged(s tester.Stream) tester.Stream {
	s.Header.VLAN, s.Header.PCP = 4094, 5
	return s
}

// kinds are streams of every family, tag and payload, at their smallest, odd and largest sizes.
func kinds() []tester.Stream {
	var all []tester.Stream
	for _, s := range []tester.Stream{stream(0), stream6(0), tagged(stream(0)), tagged(stream6(0))} {
		for _, stamped := range []bool{true, false} {
			s.Stamped = stamped
			smallest := Smallest(s.Header, stamped)
			for _, size := range []int{smallest, smallest + 1, 101, 570, 1518, 8999, 9000} {
				s.Sizes = []tester.SizeShare{{Size: size, Weight: 1}}
				all = append(all, s)
			}
		}
	}
	static := stream(200)
	static.Stamped, static.Payload = false, []byte("weir")
	return append(all, static)
}

// TestFramesByHand compares the smallest IPv4 frame with octets calculated on paper.
func TestFramesByHand(t *testing.T) {
	template, err := Build(stream(64), 64)
	if err != nil {
		t.Fatal(err)
	}
	got := template.Fill(make([]byte, 60), 0x0102_0304_0506, 0x1_0000_0002*second+999_999_999-0x1_0000_0000*second, false)
	// header: 45b9+002e+4000+1111+c612+0001+c613+0001 = 2231f -> 2321, inverted dcde datagram:
	// c612+0001+c613+0001+0011+001a + c000+c351+001a + 0007+0102+0304+0506+0002+3b9a+c9ff = 41e6b
	// -> 1e6f, e190
	want := []byte{
		2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0,
		0x45, 0xb9, 0, 46, 0, 0, 0x40, 0, 17, 17, 0xdc, 0xde, 198, 18, 0, 1, 198, 19, 0, 1,
		0xc0, 0x00, 0xc3, 0x51, 0, 26, 0xe1, 0x90,
		0, 7, 1, 2, 3, 4, 5, 6, 0, 0, 0, 0, 0, 2, 0x3b, 0x9a, 0xc9, 0xff,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-paper +built):\n%s", diff)
	}
}

// TestFramesOfAllKinds decodes every kind of frame with an independent decoder.
func TestFramesOfAllKinds(t *testing.T) {
	for _, s := range kinds() {
		template, err := Build(s, s.Sizes[0].Size)
		if err != nil {
			t.Fatal(err)
		}
		octets := template.Fill(make([]byte, MaxSize), 5, uint64(time.Now().UnixNano()), false)
		if len(octets) != s.Sizes[0].Size-4 {
			t.Errorf("%d octets in a frame of %d", len(octets), s.Sizes[0].Size)
		}
		packet := gopacket.NewPacket(octets, layers.LayerTypeEthernet, gopacket.Default)
		if fail := packet.ErrorLayer(); fail != nil {
			t.Fatalf("%+v: %v", s, fail.Error())
		}
		udp, _ := packet.Layer(layers.LayerTypeUDP).(*layers.UDP)
		if udp == nil || udp.SrcPort != 49152 || udp.DstPort != 50001 || udp.Checksum == 0 {
			t.Fatalf("UDP %+v", udp)
		}
		if four, ok := packet.NetworkLayer().(*layers.IPv4); ok {
			checkSum(t, s, four)
		}
		if err := udp.SetNetworkLayerForChecksum(packet.NetworkLayer()); err != nil {
			t.Fatal(err)
		}
		checkSum(t, s, udp)
		tag, _ := packet.Layer(layers.LayerTypeDot1Q).(*layers.Dot1Q)
		if (tag != nil) != (s.Header.VLAN != 0) || tag != nil && (tag.VLANIdentifier != 4094 || tag.Priority != 5) {
			t.Errorf("tag %+v", tag)
		}
		checkParse(t, s, octets, udp.Payload)
	}
}

func checkSum(t *testing.T, s tester.Stream, layer gopacket.LayerWithChecksum) {
	t.Helper()
	err, result := layer.VerifyChecksum()
	if err != nil || !result.Valid {
		t.Errorf("%+v: checksum %#x, want %#x, %v", s.Header, result.Actual, result.Correct, err)
	}
}

func checkParse(t *testing.T, s tester.Stream, octets, payload []byte) {
	t.Helper()
	info, err := Parse(octets)
	if err != nil {
		t.Fatal(err)
	}
	want := Info{
		VLAN: s.Header.VLAN, Source: s.Header.Source, Destination: s.Header.Destination,
		SourcePort: 49152, DestinationPort: 50001, DSCP: 46, ECN: 1, TTL: 17, Payload: payload, NetworkChecksum: true, UDPChecksum: true,
	}
	got := info
	got.Stamp, got.HasStamp = Stamp{}, false
	if diff := cmp.Diff(want, got, cmp.Comparer(func(a, b netip.Addr) bool { return a == b })); diff != "" {
		t.Errorf("parsed (-want +got):\n%s", diff)
	}
	if s.Stamped && (!info.HasStamp || info.Stamp.Stream != 7 || info.Stamp.Sequence != 5) {
		t.Errorf("stamp %+v", info.Stamp)
	}
}

// TestModifiersKeepChecksums compares incremental checksums with ones computed over the whole
// frame.
func TestModifiersKeepChecksums(t *testing.T) {
	r := testutil.Rand(t)
	for range 300 {
		s := stream(64 + r.IntN(100))
		if r.IntN(2) == 0 {
			s = stream6(88 + r.IntN(100))
		}
		if r.IntN(2) == 0 {
			s = tagged(s)
		}
		s.Sizes[0].Size = max(s.Sizes[0].Size, Smallest(s.Header, true))
		for range 1 + r.IntN(MaxModifiers) {
			m := tester.Modifier{
				Action: []tester.Action{tester.Increment, tester.Decrement, tester.Random}[r.IntN(3)],
				Offset: r.IntN(HeaderSize(s.Header)), Mask: make([]byte, 1+r.IntN(4)), Repetitions: r.IntN(4),
			}
			for i := range m.Mask {
				m.Mask[i] = byte(r.Uint32())
			}
			with := s
			with.Modifiers = append(slices.Clone(s.Modifiers), m)
			if Validate(with) == nil {
				s = with
			}
		}
		template, err := Build(s, s.Sizes[0].Size)
		if err != nil {
			t.Fatal(err)
		}
		buffer := make([]byte, MaxSize)
		for _, n := range []uint64{0, 1, 2, 7, r.Uint64N(1 << 40)} {
			info, err := Parse(template.Fill(buffer, n, r.Uint64N(1<<62), n%2 == 1))
			if err != nil || !info.NetworkChecksum || !info.UDPChecksum || info.Stamp.Sequence != n {
				t.Fatalf("frame %d with %+v: %v, %+v", n, s.Modifiers, err, info)
			}
		}
	}
}

func TestFieldValues(t *testing.T) {
	tests := []struct {
		field Field
		want  []uint32
	}{
		{Field{Action: tester.Increment, Mask: 0xff000000, Initial: 0xfe000000, Repetitions: 1}, []uint32{0xfe000000, 0xff000000, 0, 0x01000000}},
		{Field{Action: tester.Decrement, Mask: 0x0ff00000, Initial: 0x00100000, Repetitions: 2}, []uint32{0x00100000, 0x00100000, 0, 0, 0x0ff00000}},
		{Field{Action: tester.Increment, Mask: 0x80800000, Repetitions: 1}, []uint32{0, 0x00800000, 0x80000000, 0x80800000, 0}},
	}
	for _, test := range tests {
		t.Run(fmt.Sprintf("%s mask %#x", test.field.Action, test.field.Mask), func(t *testing.T) {
			for n, want := range test.want {
				if got := test.field.Value(uint64(n)); got != want {
					t.Errorf("%+v: value %d is %#x, want %#x", test.field, n, got, want)
				}
			}
		})
	}
	random := Field{Action: tester.Random, Mask: 0xffff0000, Repetitions: 3, Seed: 1}
	seen := map[uint32]bool{}
	for n := range uint64(300) {
		v := random.Value(n)
		if v&^random.Mask != 0 || v != random.Value(n/3*3) {
			t.Fatalf("random value %d: %#x", n, v)
		}
		seen[v] = true
	}
	if len(seen) < 95 { // of 100 draws from 65536
		t.Errorf("%d values of 100 differ", len(seen))
	}
}

func TestCycle(t *testing.T) {
	cycle := Cycle(IMIX())
	counts := map[int]int{}
	for _, i := range cycle {
		counts[i]++
	}
	if diff := cmp.Diff(map[int]int{0: 7, 1: 4, 2: 1}, counts); diff != "" {
		t.Errorf("IMIX (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]int{0, 1, 0}, Cycle([]tester.SizeShare{{Size: 64, Weight: 200}, {Size: 65, Weight: 100}})); diff != "" {
		t.Errorf("2:1 (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]int{0}, Cycle([]tester.SizeShare{{Size: 64}})); diff != "" {
		t.Errorf("one size without a weight (-want +got):\n%s", diff)
	}
}

func TestValidate(t *testing.T) {
	change := func(change func(*tester.Stream)) tester.Stream {
		s := stream(64)
		change(&s)
		return s
	}
	modify := func(s tester.Stream, m ...tester.Modifier) tester.Stream {
		s.Modifiers = m
		return s
	}
	one := []byte{0xff}
	tests := []struct {
		stream tester.Stream
		want   string // "" is valid
	}{
		{stream(64), ""},
		{tagged(stream6(88)), ""},
		{stream6(80), "leave 14 octets of payload, and a stamp takes 18"},
		{tagged(stream(64)), "leave 14 octets of payload"},
		{stream(63), "too small for Ethernet"},
		{stream(9001), "too large"},
		{change(func(s *tester.Stream) { s.ID = 4096 }), "no stream 4096"},
		{change(func(s *tester.Stream) { s.Sizes = nil }), "no frame size"},
		{change(func(s *tester.Stream) { s.Sizes = IMIX(); s.Sizes[1].Weight = 0 }), "weight 0"},
		{change(func(s *tester.Stream) { s.Sizes = IMIX(); s.Sizes[1].Weight = 1000 }), "repeats only after"},
		{change(func(s *tester.Stream) { s.Sizes = slices.Repeat(IMIX(), 3) }), "9 sizes"},
		{change(func(s *tester.Stream) { s.Header.Source = stream6(0).Header.Source }), "different families"},
		{change(func(s *tester.Stream) { s.Header.Destination = netip.Addr{} }), "IP address is missing"},
		{change(func(s *tester.Stream) { s.Header.SourceMAC = nil }), "MAC address is missing"},
		{change(func(s *tester.Stream) { s.Header.Destination = netip.MustParseAddr("::ffff:1.2.3.4") }), "inside IPv6"},
		{change(func(s *tester.Stream) { s.Header.VLAN = 4095 }), "VLAN 4095"},
		{change(func(s *tester.Stream) { s.Header.PCP = 1 }), "PCP 1"},
		{change(func(s *tester.Stream) { s.Header.DSCP = 64 }), "DSCP 64"},
		{change(func(s *tester.Stream) { s.Header.ECN = 4 }), "ECN 4"},
		{change(func(s *tester.Stream) { s.Gap = -1 }), "cannot be negative"},
		{modify(stream(64), tester.Modifier{Action: tester.Increment, Offset: 30, Mask: one}), ""},
		{modify(stream(64), tester.Modifier{Action: "swap", Offset: 30, Mask: one}), "no action"},
		{modify(stream(64), tester.Modifier{Action: tester.Increment, Offset: 30, Mask: []byte{0, 0}}), "changes nothing"},
		{modify(stream(64), tester.Modifier{Action: tester.Increment, Offset: 42, Mask: one}), "outside the header"},
		{modify(stream(64), tester.Modifier{Action: tester.Increment, Offset: 24, Mask: one}), "the header checksum"},
		{modify(stream(64), tester.Modifier{Action: tester.Increment, Offset: 37, Mask: []byte{1, 0, 0, 1}}), "the UDP length and checksum"},
		{modify(stream(64), tester.Modifier{Action: tester.Increment, Offset: 12, Mask: one}), "the EtherType"},
		{modify(stream6(84), tester.Modifier{Action: tester.Increment, Offset: 14, Mask: []byte{0x0f, 0xff}}), ""},
		{modify(stream6(84), tester.Modifier{Action: tester.Increment, Offset: 14, Mask: []byte{0x1f}}), "the IP version"},
		{modify(stream(64), tester.Modifier{Action: tester.Increment, Offset: 30, Mask: []byte{0, 0, 1}}, tester.Modifier{Action: tester.Random, Offset: 32, Mask: []byte{3}}), "another one changes"},
		{modify(stream(64), slices.Repeat([]tester.Modifier{{Action: tester.Random, Offset: 32, Mask: []byte{3}}}, 5)...), "5 modifiers"},
	}
	for i, test := range tests {
		t.Run(fmt.Sprintf("%d %s", i, test.want), func(t *testing.T) {
			err := Validate(test.stream)
			switch {
			case test.want == "" && err != nil:
				t.Errorf("%+v: %v", test.stream, err)
			case test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want) || fault.Of(err) != fault.Usage):
				t.Errorf("%+v: error %v, want %q", test.stream, err, test.want)
			}
		})
	}
}

func TestPlan(t *testing.T) {
	valid := tester.Schedule{Streams: []tester.Stream{stream(64)}, Duration: time.Second}
	change := func(change func(*tester.Schedule)) tester.Schedule {
		s := valid
		s.Streams = slices.Clone(valid.Streams)
		change(&s)
		return s
	}
	tests := []struct {
		schedule tester.Schedule
		want     string
	}{
		{valid, ""},
		{change(func(s *tester.Schedule) { s.Streams = nil }), "no streams"},
		{change(func(s *tester.Schedule) { s.Duration = 0 }), "no end"},
		{change(func(s *tester.Schedule) { s.Policy = "hurry" }), "no policy"},
		{change(func(s *tester.Schedule) { s.Batch = 1000 }), "batches of 1000"},
		{change(func(s *tester.Schedule) { s.Sequential = true }), "sequential stream has no end"},
		{change(func(s *tester.Schedule) { s.Streams = append(s.Streams, stream(65)) }), "identifier 7"},
		{change(func(s *tester.Schedule) { s.Streams = make([]tester.Stream, 4097) }), "4097 streams"},
		{change(func(s *tester.Schedule) { s.Streams = []tester.Stream{stream(1)} }), "too small"},
	}
	for i, test := range tests {
		t.Run(fmt.Sprintf("%d %s", i, test.want), func(t *testing.T) {
			_, err := Plan(test.schedule)
			if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want) || fault.Of(err) != fault.Usage) {
				t.Errorf("%d: error %v, want %q", i, err, test.want)
			}
		})
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range kinds() {
		if s.Sizes[0].Size > 600 {
			continue
		}
		template, err := Build(s, s.Sizes[0].Size)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(template.Octets)
	}
	f.Add([]byte{})
	f.Add(make([]byte, 14))
	f.Fuzz(func(t *testing.T, octets []byte) {
		info, err := Parse(octets)
		if err != nil {
			return
		}
		if len(info.Payload) > len(octets) || !info.Source.IsValid() || !info.Destination.IsValid() {
			t.Errorf("parsed %+v", info)
		}
		if info.HasStamp {
			again := make([]byte, tester.StampSize)
			PutStamp(again, info.Stamp)
			if diff := cmp.Diff(info.Payload[len(info.Payload)-tester.StampSize:], again); diff != "" {
				t.Errorf("stamp (-parsed +written):\n%s", diff)
			}
		}
	})
}
