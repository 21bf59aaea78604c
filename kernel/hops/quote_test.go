// SPDX-License-Identifier: Apache-2.0

package hops

import (
	"net"
	"net/netip"
	"testing"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
)

// bytes serializes layers, with lengths and checksums.
func bytes(t testing.TB, all ...gopacket.SerializableLayer) []byte {
	t.Helper()
	buffer := gopacket.NewSerializeBuffer()
	if err := gopacket.SerializeLayers(buffer, gopacket.SerializeOptions{FixLengths: true}, all...); err != nil {
		t.Fatal(err)
	}
	return buffer.Bytes()
}

var router4, from4, to4 = net.IP{10, 0, 0, 1}, net.IP{10, 1, 0, 1}, net.IP{10, 2, 0, 1}

var from6, to6 = net.ParseIP("2001:db8:1::1"), net.ParseIP("2001:db8:2::1")

func quoted4(t testing.TB, kind, code uint8, tos uint8) []byte {
	inner := bytes(t, &layers.IPv4{Version: 4, IHL: 5, TOS: tos, TTL: 1, Protocol: layers.IPProtocolUDP, SrcIP: from4, DstIP: to4},
		&layers.UDP{SrcPort: 4000, DstPort: 33434}, gopacket.Payload(make([]byte, payload+7)))
	return bytes(t, &layers.IPv4{Version: 4, IHL: 5, TTL: 64, Protocol: layers.IPProtocolICMPv4, SrcIP: router4, DstIP: from4},
		&layers.ICMPv4{TypeCode: layers.CreateICMPv4TypeCode(kind, code)}, gopacket.Payload(inner[:28]))
}

// quoted6 quotes a TCP packet behind a Hop-by-Hop header.
func quoted6(t testing.TB) []byte {
	tcp := bytes(t, &layers.TCP{SrcPort: 4000, DstPort: 80, SYN: true})
	options := append([]byte{6, 0, 1, 4, 0, 0, 0, 0}, tcp...)
	inner := bytes(t, &layers.IPv6{Version: 6, TrafficClass: 8<<2 | 1, HopLimit: 1, NextHeader: layers.IPProtocolIPv6HopByHop, SrcIP: from6, DstIP: to6},
		gopacket.Payload(options))
	return append([]byte{3, 0, 0, 0, 0, 0, 0, 0}, inner...)
}

func TestQuotedHeadersAreRead(t *testing.T) {
	want := Quote{Kind: Exceeded, DSCP: 1, To: netip.MustParseAddr("10.2.0.1"), Protocol: 17, FromPort: 4000, ToPort: 33434, Length: 8 + payload + 7}
	if got, ok := ParseIPv4(quoted4(t, 11, 0, 1<<2|3)); !ok || got != want {
		t.Errorf("IPv4: %+v, %t, want %+v", got, ok, want)
	}
	want = Quote{Kind: Exceeded, DSCP: 8, To: netip.MustParseAddr("2001:db8:2::1"), Protocol: 6, FromPort: 4000, ToPort: 80}
	if got, ok := ParseIPv6(quoted6(t)); !ok || got != want {
		t.Errorf("IPv6: %+v, %t, want %+v", got, ok, want)
	}
	for _, test := range []struct {
		kind, code uint8
		want       Kind
	}{{3, 3, PortUnreachable}, {3, 13, Unreachable}, {3, 4, ""}, {11, 1, ""}, {0, 0, ""}, {5, 0, ""}} {
		if got, ok := ParseIPv4(quoted4(t, test.kind, test.code, 0)); got.Kind != test.want || ok != (test.want != "") {
			t.Errorf("type %d, code %d: %q, %t, want %q", test.kind, test.code, got.Kind, ok, test.want)
		}
	}
}

// A truncated quote, or the quote of a later fragment, is rejected.
func TestQuotesThatAreCut(t *testing.T) {
	whole4, whole6 := quoted4(t, 11, 0, 4), quoted6(t)
	for n := range whole4 {
		if got, ok := ParseIPv4(whole4[:n]); ok {
			t.Errorf("IPv4 cut to %d octets: %+v", n, got)
		}
	}
	for n := range icmpHeader + ip6Header + 8 + ports {
		if got, ok := ParseIPv6(whole6[:n]); ok {
			t.Errorf("IPv6 cut to %d octets: %+v", n, got)
		}
	}
	whole4[20+icmpHeader+7] = 5 // offset of a fragment
	if got, ok := ParseIPv4(whole4); ok {
		t.Errorf("a later fragment: %+v", got)
	}
}

// Every address of the result must be in the input.
func FuzzQuote(f *testing.F) {
	f.Add(quoted4(f, 11, 0, 4), true)
	f.Add(quoted4(f, 3, 3, 0xb8), true)
	f.Add(quoted6(f), false)
	f.Fuzz(func(t *testing.T, b []byte, four bool) {
		parse, protocol := ParseIPv6, gopacket.Decoder(layers.LayerTypeIPv6)
		at := icmpHeader
		if four {
			parse, protocol = ParseIPv4, layers.LayerTypeIPv4
		}
		q, ok := parse(b)
		if !ok {
			return
		}
		if four {
			at = int(b[0]&15)*4 + icmpHeader
		}
		if q.DSCP > 63 || q.Kind == "" || q.Protocol != protocolTCP && q.Protocol != protocolUDP {
			t.Fatalf("%+v of % x", q, b)
		}
		// Another decoder returns the same DSCP and destination if it can decode the packet.
		decoded := gopacket.NewPacket(b[at:], protocol, gopacket.DecodeOptions{Lazy: true})
		switch ip := decoded.NetworkLayer().(type) {
		case *layers.IPv4:
			if to, read := netip.AddrFromSlice(ip.DstIP.To4()); read && (ip.TOS>>2 != uint8(q.DSCP) || to != q.To) {
				t.Fatalf("%+v, and by another decoder %+v", q, ip)
			}
		case *layers.IPv6:
			if to, read := netip.AddrFromSlice(ip.DstIP); read && (ip.TrafficClass>>2 != uint8(q.DSCP) || to != q.To) {
				t.Fatalf("%+v, and by another decoder %+v", q, ip)
			}
		}
	})
}
