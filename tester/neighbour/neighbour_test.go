// SPDX-License-Identifier: Apache-2.0

package neighbour

import (
	"bytes"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"

	"weir/tester"
)

var (
	own   = net.HardwareAddr{2, 0, 0, 0, 0, 1}
	asker = net.HardwareAddr{2, 0, 0, 0, 0, 9}
	four  = netip.MustParseAddr("198.19.0.5")
	six   = netip.MustParseAddr("2001:2:0:1::5")
	away  = netip.MustParseAddr("2001:2:0:1::fe")
	group = net.ParseIP("ff02::1:ff00:5")
)

// built returns a frame with correct lengths and checksums, from an independent encoder.
func built(t testing.TB, all ...gopacket.SerializableLayer) []byte {
	t.Helper()
	buffer := gopacket.NewSerializeBuffer()
	if err := gopacket.SerializeLayers(buffer, gopacket.SerializeOptions{FixLengths: true, ComputeChecksums: true}, all...); err != nil {
		t.Fatal(err)
	}
	return buffer.Bytes()
}

func arp(t testing.TB, operation uint16, target netip.Addr) []byte {
	return built(t, &layers.Ethernet{SrcMAC: asker, DstMAC: layers.EthernetBroadcast, EthernetType: layers.EthernetTypeARP},
		&layers.ARP{AddrType: layers.LinkTypeEthernet, Protocol: layers.EthernetTypeIPv4, HwAddressSize: 6, ProtAddressSize: 4, Operation: operation,
			SourceHwAddress: asker, SourceProtAddress: []byte{198, 19, 0, 1}, DstHwAddress: make([]byte, 6), DstProtAddress: target.AsSlice()})
}

func solicit(t testing.TB, source net.IP, hops uint8, target netip.Addr, options ...layers.ICMPv6Option) []byte {
	ip := &layers.IPv6{Version: 6, HopLimit: hops, NextHeader: layers.IPProtocolICMPv6, SrcIP: source, DstIP: group}
	icmp := &layers.ICMPv6{TypeCode: layers.CreateICMPv6TypeCode(solicitation, 0)}
	if err := icmp.SetNetworkLayerForChecksum(ip); err != nil {
		t.Fatal(err)
	}
	return built(t, &layers.Ethernet{SrcMAC: asker, DstMAC: net.HardwareAddr{0x33, 0x33, 0xff, 0, 0, 5}, EthernetType: layers.EthernetTypeIPv6}, ip, icmp,
		&layers.ICMPv6NeighborSolicitation{TargetAddress: target.AsSlice(), Options: options})
}

func link(mac net.HardwareAddr) layers.ICMPv6Option {
	return layers.ICMPv6Option{Type: layers.ICMPv6OptSourceAddress, Data: mac}
}

func set(streams ...tester.Stream) *Set {
	s := &Set{}
	for _, stream := range streams {
		s.Add(stream, Destination)
	}
	return s
}

func to(a netip.Addr) tester.Stream { return tester.Stream{Header: tester.Header{Destination: a}} }

func TestAnARPAnswerIsThatOfAnyHost(t *testing.T) {
	answer, kind := set(to(four)).Answer(arp(t, 1, four), 0, own)
	want := built(t, &layers.Ethernet{SrcMAC: own, DstMAC: asker, EthernetType: layers.EthernetTypeARP},
		&layers.ARP{AddrType: layers.LinkTypeEthernet, Protocol: layers.EthernetTypeIPv4, HwAddressSize: 6, ProtAddressSize: 4, Operation: 2,
			SourceHwAddress: own, SourceProtAddress: four.AsSlice(), DstHwAddress: asker, DstProtAddress: []byte{198, 19, 0, 1}})
	if kind != ARP || !bytes.Equal(answer, want[:len(answer)]) || len(answer) != ethernetSize+arpSize {
		t.Errorf("%x\nwant\n%x", answer, want)
	}
}

func advertised(t *testing.T, to net.HardwareAddr, dst net.IP, flags uint8) []byte {
	ip := &layers.IPv6{Version: 6, HopLimit: 255, NextHeader: layers.IPProtocolICMPv6, SrcIP: six.AsSlice(), DstIP: dst}
	icmp := &layers.ICMPv6{TypeCode: layers.CreateICMPv6TypeCode(advertisement, 0)}
	if err := icmp.SetNetworkLayerForChecksum(ip); err != nil {
		t.Fatal(err)
	}
	return built(t, &layers.Ethernet{SrcMAC: own, DstMAC: to, EthernetType: layers.EthernetTypeIPv6}, ip, icmp,
		&layers.ICMPv6NeighborAdvertisement{Flags: flags, TargetAddress: six.AsSlice(),
			Options: layers.ICMPv6Options{{Type: layers.ICMPv6OptTargetAddress, Data: own}}})
}

func TestANeighbourAdvertisementIsThatOfAnyHost(t *testing.T) {
	router := net.IP(away.AsSlice())
	for name, c := range map[string]struct{ request, want []byte }{
		"with the asker's MAC":    {solicit(t, router, 255, six, link(asker)), advertised(t, asker, router, 0x60)},
		"without":                 {solicit(t, router, 255, six), advertised(t, asker, router, 0x60)},
		"address detection (DAD)": {solicit(t, net.IPv6zero, 255, six), advertised(t, net.HardwareAddr{0x33, 0x33, 0, 0, 0, 1}, net.IPv6linklocalallnodes, 0x20)},
	} {
		t.Run(name, func(t *testing.T) {
			answer, kind := set(to(six)).Answer(c.request, 0, own)
			if kind != ND || !bytes.Equal(answer, c.want) {
				t.Errorf("%s: %d\n%x\nwant\n%x", name, kind, answer, c.want)
			}
		})
	}
}

func TestWhatIsNotAnswered(t *testing.T) {
	damaged := solicit(t, away.AsSlice(), 255, six)
	damaged[len(damaged)-1] ^= 1 // of the target, so the checksum is wrong
	cut := arp(t, 1, four)
	for name, c := range map[string]struct {
		request []byte
		vlan    uint16
		set     *Set
	}{
		"an address of nobody":       {arp(t, 1, netip.MustParseAddr("198.19.0.6")), 0, set(to(four))},
		"another VLAN":               {arp(t, 1, four), 7, set(to(four))},
		"an answer":                  {arp(t, 2, four), 0, set(to(four))},
		"cut":                        {cut[:ethernetSize+arpSize-1], 0, set(to(four))},
		"wrong checksum":             {damaged, 0, set(to(six), to(netip.MustParseAddr("2001:2:0:1::4")))},
		"from beyond a router":       {solicit(t, away.AsSlice(), 254, six), 0, set(to(six))},
		"DAD with an address":        {solicit(t, net.IPv6zero, 255, six, link(asker)), 0, set(to(six))},
		"an option without a length": {append(solicit(t, away.AsSlice(), 255, six), 0), 0, set(to(four))},
		"no streams":                 {arp(t, 1, four), 0, &Set{}},
	} {
		if answer, kind := c.set.Answer(c.request, c.vlan, own); kind != Nothing {
			t.Errorf("%s: answered by %x", name, answer)
		}
	}
	kernels := set(to(four))
	kernels.Leave(four)
	if _, kind := kernels.Answer(arp(t, 1, four), 0, own); kind != Nothing {
		t.Error("answered for the kernel's own address")
	}
}

func TestModifiersMakeMoreAddresses(t *testing.T) {
	stream := to(four)
	stream.Header.VLAN = 7
	stream.Modifiers = []tester.Modifier{{Offset: 14 + 4 + 16 + 2, Mask: []byte{0x01, 0x0f}}}
	s := set(stream)
	n := 0
	for a := netip.MustParseAddr("198.18.255.0"); a.Less(netip.MustParseAddr("198.19.3.0")); a = a.Next() {
		if s.Has(a, 7) {
			n++
		}
	}
	if n != 32 || !s.Has(netip.MustParseAddr("198.19.1.15"), 7) || s.Has(netip.MustParseAddr("198.19.1.16"), 7) {
		t.Errorf("%d addresses of 32", n)
	}
}

func TestAnswersAreBounded(t *testing.T) {
	now := time.Unix(0, 0)
	b := bucket{left: Burst, at: now}
	n := 0
	for range 10 * Burst {
		if b.take(now) {
			n++
		}
	}
	if n != Burst {
		t.Errorf("%d at once", n)
	}
	n = 0
	for range 10 * Rate {
		now = now.Add(time.Millisecond)
		if b.take(now) {
			n++
		}
	}
	if n < 9*Rate || n > 10*Rate+1 {
		t.Errorf("%d in 10 s", n)
	}
}

func FuzzAnswer(f *testing.F) {
	f.Add(arp(f, 1, four), uint16(0))
	f.Add(solicit(f, away.AsSlice(), 255, six, link(asker)), uint16(0))
	f.Add(solicit(f, net.IPv6zero, 255, six), uint16(0))
	s := set(to(four), to(six))
	f.Fuzz(func(t *testing.T, request []byte, vlan uint16) {
		answer, kind := s.Answer(request, vlan, own)
		if kind == Nothing {
			return
		}
		if vlan != 0 || !bytes.Equal(answer[6:12], own) || kind == ND && checksum6(answer[22:54], answer[54:]) != 0 {
			t.Errorf("%x to %x", answer, request)
		}
	})
}
