// SPDX-License-Identifier: Apache-2.0

package headers

import (
	"testing"

	"github.com/cilium/ebpf"
	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"

	"weir/kernel/testutil"
)

// datagram is a UDP frame.
func datagram(payload int) []byte {
	frame := make([]byte, ethernet+ip6+8+payload)
	frame[12], frame[13], frame[14], frame[20], frame[21] = 0x86, 0xdd, 0x60, 17, 64
	frame[19] = byte(8 + payload)
	for i := range 2 {
		frame[22+16*i], frame[37+16*i] = 0xfd, byte(i+1)
	}
	copy(frame[ethernet+ip6:], []byte{1, 2, 3, 4, 0, byte(8 + payload), 0, 0})
	return frame
}

// The oracle finds the former payload behind each chain, and so does gopacket if it knows the
// headers.
func TestTheOracleFindsWhatWasThere(t *testing.T) {
	for _, c := range Chains() {
		frame := Insert(datagram(40), c.Headers...)
		got := Read(frame[ethernet:])
		if want := len(frame) - ethernet - 48; got.Protocol != 17 || got.Later != c.Later || got.At != want {
			t.Errorf("%s: %+v, want UDP at %d", c.Name, got, want)
		}
		packet := gopacket.NewPacket(frame, layers.LayerTypeEthernet, gopacket.Default)
		udp, ok := packet.TransportLayer().(*layers.UDP)
		if !ok { // a fragment, or a header unknown to gopacket
			continue
		}
		if udp.SrcPort != 0x102 || udp.DstPort != 0x304 || got.Later {
			t.Errorf("%s: gopacket finds ports %d and %d, here is %+v", c.Name, udp.SrcPort, udp.DstPort, got)
		}
	}
}

// The oracle reports a truncated header, one header too many, and a message of its own protocol.
func TestWhereAChainEnds(t *testing.T) {
	hop := Options(HopByHop, 8)
	nine := []Header{hop, hop, hop, hop, hop, hop, hop, hop, hop}
	message := datagram(40)
	message[20] = NoNext
	for _, c := range []struct {
		name  string
		frame []byte
		want  Upper
	}{
		{"no extension header", datagram(0), Upper{17, 40, 40, false}},
		{"cut off", Insert(datagram(0), hop, Segments(2))[:ethernet+ip6+8+3], Upper{Routing, 48, 48, false}},
		{"cut off behind its first octets", Insert(datagram(0), hop, Segments(2))[:ethernet+ip6+8+4], Upper{17, 88, 88, false}},
		{"one too many", Insert(datagram(0), nine...), Upper{HopByHop, 104, 104, false}},
		{"a message of Mobile IPv6", Insert(message, hop, Signalling(Mobility, 16)), Upper{Mobility, 48, 48, false}},
		{"of HIP, in its first fragment", Insert(message, Piece(0, true), Signalling(HIP, 400))[:200], Upper{HIP, 48, 40, false}},
		{"a Destination header for the last one", Insert(datagram(0), hop, Segments(1), Options(Destination, 8)), Upper{17, 80, 72, false}},
	} {
		if got := Read(c.frame[ethernet:]); got != c.want {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
	}
}

// The programs agree with the oracle: behind the chains, behind random ones, and in truncated ones.
func TestTheWalkIsTheOracles(t *testing.T) {
	testutil.NeedRoot(t)
	var objects walkObjects
	if err := loadWalkObjects(&objects, nil); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = objects.Close() }()
	check := func(name string, frame []byte) {
		t.Helper()
		want := Read(frame[ethernet:])
		for _, program := range []*ebpf.Program{objects.WalkDevice, objects.WalkCgroup} {
			for which := range uint32(2) {
				if err := objects.WalkFound.Put(which, &walkUpperLayer{}); err != nil {
					t.Fatal(err)
				}
			}
			if _, err := program.Run(&ebpf.RunOptions{Data: frame, Repeat: 1}); err != nil {
				testutil.Need(t, "BPF_PROG_TEST_RUN of cgroup_skb", err)
			}
			for which := range uint32(2) {
				var got walkUpperLayer
				if err := objects.WalkFound.Lookup(which, &got); err != nil {
					t.Fatal(err)
				}
				if is := (Upper{got.Protocol, int(got.At), int(got.Repeated), got.Later != 0}); is != want {
					t.Fatalf("%s, %s, %d: %+v, want %+v of %x", name, program, which, is, want, frame)
				}
			}
		}
	}
	for _, c := range Chains() {
		check(c.Name, Insert(datagram(40), c.Headers...))
	}
	r := testutil.Rand(t)
	for range 5000 {
		frame := Insert(datagram(20), Random(r)...)
		for r.IntN(3) == 0 {
			frame[ethernet+ip6+r.IntN(len(frame)-ethernet-ip6)] = []byte{0, 1, 43, 44, 51, 59, 60, 135, 139, 140, 255}[r.IntN(11)]
		}
		if r.IntN(8) == 0 {
			frame = frame[:ethernet+ip6+r.IntN(len(frame)-ethernet-ip6)]
		}
		check("random", frame)
	}
}
