// SPDX-License-Identifier: Apache-2.0

package replay

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
	"github.com/gopacket/gopacket/pcapgo"

	"weir/internal/fault"
)

// packets builds frames with an independent encoder: UDP, TCP and ICMPv6, n of each.
func packets(t testing.TB, n int) (all [][]byte) {
	t.Helper()
	eth := func(kind layers.EthernetType) *layers.Ethernet {
		return &layers.Ethernet{SrcMAC: net.HardwareAddr{2, 0, 0, 0, 0, 1}, DstMAC: net.HardwareAddr{2, 0, 0, 0, 0, 2}, EthernetType: kind}
	}
	put := func(layers ...gopacket.SerializableLayer) {
		buffer := gopacket.NewSerializeBuffer()
		if err := gopacket.SerializeLayers(buffer, gopacket.SerializeOptions{FixLengths: true, ComputeChecksums: true}, layers...); err != nil {
			t.Fatal(err)
		}
		all = append(all, bytes.Clone(buffer.Bytes()))
	}
	for i := range n {
		four := &layers.IPv4{Version: 4, IHL: 5, TTL: 64, Id: uint16(i), Protocol: layers.IPProtocolUDP, SrcIP: net.IP{10, 0, 0, 1}, DstIP: net.IP{10, 0, 0, 2}}
		udp := &layers.UDP{SrcPort: 1, DstPort: 2}
		_ = udp.SetNetworkLayerForChecksum(four)
		put(eth(layers.EthernetTypeIPv4), four, udp, gopacket.Payload{byte(i), 1, 2})
		other := *four
		other.Protocol = layers.IPProtocolTCP
		tcp := &layers.TCP{SrcPort: 1, DstPort: 2, Seq: uint32(i), ACK: true}
		_ = tcp.SetNetworkLayerForChecksum(&other)
		put(eth(layers.EthernetTypeIPv4), &other, tcp, gopacket.Payload("segment"))
		six := &layers.IPv6{Version: 6, HopLimit: 64, NextHeader: layers.IPProtocolICMPv6, SrcIP: net.ParseIP("2001:db8::1"), DstIP: net.ParseIP("2001:db8::2")}
		icmp := &layers.ICMPv6{TypeCode: layers.CreateICMPv6TypeCode(128, 0)}
		_ = icmp.SetNetworkLayerForChecksum(six)
		put(eth(layers.EthernetTypeIPv6), six, icmp, gopacket.Payload{0, 1, 0, byte(i)})
	}
	return all
}

func capture(t testing.TB, ng bool, gap time.Duration, frames [][]byte) []byte {
	t.Helper()
	var file bytes.Buffer
	var w interface {
		WritePacket(gopacket.CaptureInfo, []byte) error
	}
	if ng {
		writer, err := pcapgo.NewNgWriter(&file, layers.LinkTypeEthernet)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = writer.Flush() }()
		w = writer
	} else {
		writer := pcapgo.NewWriterNanos(&file)
		if err := writer.WriteFileHeader(65536, layers.LinkTypeEthernet); err != nil {
			t.Fatal(err)
		}
		w = writer
	}
	for i, f := range frames {
		at := time.Unix(1000, 0).Add(time.Duration(i) * gap)
		if err := w.WritePacket(gopacket.CaptureInfo{Timestamp: at, CaptureLength: len(f), Length: len(f)}, f); err != nil {
			t.Fatal(err)
		}
	}
	if writer, ok := w.(*pcapgo.NgWriter); ok {
		_ = writer.Flush()
	}
	return file.Bytes()
}

func TestBothFormatsAreReadWithTheirTimes(t *testing.T) {
	frames := packets(t, 3)
	for _, ng := range []bool{false, true} {
		c, err := Read(bytes.NewReader(capture(t, ng, 3*time.Microsecond, frames)))
		if err != nil || len(c.Frames) != len(frames) || c.Span() != 8*3*time.Microsecond || c.Backwards != 0 {
			t.Fatalf("pcapng %v: %d frames over %s, %v", ng, len(c.Frames), c.Span(), err)
		}
		for i, f := range c.Frames {
			if !bytes.Equal(f.Octets, frames[i]) {
				t.Errorf("frame %d differs", i)
			}
		}
	}
}

func TestCompressedCapturesAreRead(t *testing.T) {
	frames := packets(t, 2)
	for _, ng := range []bool{false, true} {
		t.Run(fmt.Sprintf("pcapng=%t", ng), func(t *testing.T) {
			file := compress(t, capture(t, ng, time.Millisecond, frames))
			c, err := Read(bytes.NewReader(file))
			if err != nil || len(c.Frames) != len(frames) || !bytes.Equal(c.Frames[5].Octets, frames[5]) {
				t.Fatalf("%d frames, %v", len(c.Frames), err)
			}
			_, err = Read(bytes.NewReader(file[:len(file)-9])) // without checksum and length
			if err == nil || fault.Of(err) != fault.Usage {
				t.Errorf("truncated: %v", err)
			}
		})
	}
}

// A small compressed file that expands without end is rejected. Its blocks hold no frames.
func TestCompressedCapturesAreBounded(t *testing.T) {
	file := capture(t, true, 0, packets(t, 1)[:1])
	block := make([]byte, 1<<10) // of an unknown type
	binary.LittleEndian.PutUint32(block, 0x0bad)
	binary.LittleEndian.PutUint32(block[4:], uint32(len(block)))
	binary.LittleEndian.PutUint32(block[len(block)-4:], uint32(len(block)))
	_, err := readUpTo(bytes.NewReader(compress(t, append(file, bytes.Repeat(block, 100)...))), 50<<10)
	if err == nil || !strings.Contains(err.Error(), "decompressed") || fault.Of(err) != fault.Usage {
		t.Errorf("%v", err)
	}
}

func compress(t *testing.T, file []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	if _, err := z.Write(file); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func TestBadCapturesAreRefusedWithThePlace(t *testing.T) {
	good := capture(t, false, time.Millisecond, packets(t, 2))
	short, link := bytes.Clone(good), bytes.Clone(good)
	short[24+8]-- // captured length of the first frame
	short = append(short[:24+16+1], short[24+16+2:]...)
	link[20] = 113 // Linux cooked
	for name, c := range map[string]struct {
		file []byte
		want string
	}{
		"nothing":       {nil, "first 4 octets"},
		"text":          {[]byte("not a capture, but a text of some length"), "header"},
		"no frames":     {good[:24], "empty"},
		"cut":           {good[:len(good)-1], "frame 6"},
		"partial frame": {short, "frame 1 of the capture has 59 of its 60"},
		"other link":    {link, "not of Ethernet"},
		"tiny frame":    {capture(t, true, 0, [][]byte{packets(t, 1)[0], {1, 2, 3}}), "frame 2 of the capture has 3 octets"},
		"gzip":          {[]byte{0x1f, 0x8b, 1, 2, 3}, "gzip"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := Read(bytes.NewReader(c.file)); err == nil || !strings.Contains(err.Error(), c.want) || fault.Of(err) != fault.Usage || fault.Advice(err) == "" {
				t.Errorf("%v, want %q", err, c.want)
			}
		})
	}
}

func TestTimesThatGoBackAreCounted(t *testing.T) {
	c, err := Read(bytes.NewReader(capture(t, true, -time.Millisecond, packets(t, 1))))
	if err != nil || c.Backwards != 2 || c.Span() != 0 {
		t.Errorf("%d backwards over %s, %v", c.Backwards, c.Span(), err)
	}
}

// Rewritten frames equal those that the other encoder makes for the new addresses.
func TestRewritingKeepsChecksumsRight(t *testing.T) {
	w := Rewrite{Source: net.HardwareAddr{2, 9, 9, 9, 9, 9}, Addresses: map[netip.Addr]netip.Addr{
		netip.MustParseAddr("10.0.0.1"): netip.MustParseAddr("198.18.255.7"), netip.MustParseAddr("2001:db8::2"): netip.MustParseAddr("fd00::ffff:1")}}
	for i, f := range packets(t, 300) {
		if n := w.Apply(f); n != 1 || !bytes.Equal(f[6:12], w.Source) {
			t.Fatalf("frame %d: %d replaced", i, n)
		}
		p := gopacket.NewPacket(f, layers.LayerTypeEthernet, gopacket.Default)
		for _, layer := range p.Layers() {
			if covered, ok := layer.(interface {
				SetNetworkLayerForChecksum(gopacket.NetworkLayer) error
			}); ok {
				_ = covered.SetNetworkLayerForChecksum(p.NetworkLayer())
			}
		}
		if bad, mismatches := p.VerifyChecksums(); bad != nil || len(mismatches) > 0 {
			t.Fatalf("frame %d: %v %v", i, bad, mismatches)
		}
	}
}

func matched(t *testing.T, rounds int, order []int) Arrived {
	t.Helper()
	c := Config{Speed: 1, Rounds: rounds}
	for i, f := range packets(t, 4) {
		c.Capture.Frames = append(c.Capture.Frames, Frame{At: time.Duration(i) * time.Millisecond, Octets: f})
	}
	due := c.times()
	m := newMatcher(c.Capture, rounds, due)
	for _, n := range order {
		octets := bytes.Clone(c.Capture.Frames[n%12].Octets)
		octets[0] ^= 8 // another MAC, as behind a router
		m.arrive(octets, due(n)+time.Hour)
	}
	return m.arrived
}

func upTo(n int) (all []int) {
	for i := range n {
		all = append(all, i)
	}
	return all
}

func TestArrivalsAreMatchedAcrossRounds(t *testing.T) {
	lost := append(upTo(5), upTo(36)[6:]...)
	swapped := upTo(36)
	swapped[13], swapped[14] = 14, 13
	for name, c := range map[string]struct {
		order                    []int
		frames, reordered, extra uint64
	}{
		"in order":      {upTo(36), 36, 0, 0},
		"one is lost":   {lost, 35, 0, 0},
		"two swapped":   {swapped, 36, 1, 0},
		"one more copy": {append(upTo(36), 35), 36, 0, 1},
	} {
		a := matched(t, 3, c.order)
		if a.Frames != c.frames || a.Reordered != c.reordered || a.Extra != c.extra || a.Foreign != 0 || a.Alike != 0 || a.Spacing.Max() != 0 {
			t.Errorf("%s: %+v, spacing off by %d ns", name, a, a.Spacing.Max())
		}
	}
}

func FuzzRead(f *testing.F) {
	f.Add(capture(f, false, time.Millisecond, packets(f, 1)))
	f.Add(capture(f, true, time.Millisecond, packets(f, 1)))
	w := Rewrite{Addresses: map[netip.Addr]netip.Addr{netip.MustParseAddr("10.0.0.1"): netip.MustParseAddr("10.9.9.9")}}
	f.Fuzz(func(t *testing.T, file []byte) {
		c, err := Read(bytes.NewReader(file))
		if err != nil {
			return
		}
		last := time.Duration(0)
		m := newMatcher(c, 1, nil)
		for i, frame := range c.Frames {
			if frame.At < last {
				t.Errorf("frame %d is before the one in front of it", i)
			}
			last = frame.At
			m.arrive(frame.Octets, frame.At)
			w.Apply(frame.Octets)
		}
		if m.arrived.Frames != uint64(len(c.Frames)) || m.arrived.Reordered != 0 {
			t.Errorf("%d frames matched as %+v", len(c.Frames), m.arrived)
		}
	})
}
