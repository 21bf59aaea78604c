// SPDX-License-Identifier: Apache-2.0

package neighbour

import (
	"bytes"
	"encoding/binary"
	"net"
	"net/netip"

	"weir/tester/frame"
)

const (
	ethernetSize = 14
	ip6Size      = 40
	arpSize      = 28
	targetSize   = 24 // of a solicitation or an advertisement, without options

	typeARP = 0x0806
	typeIP6 = 0x86dd

	protocolICMP6  = 58
	solicitation   = 135
	advertisement  = 136
	sourceOption   = 1
	targetOption   = 2
	solicited      = 0x40
	override       = 0x20
	wholeHopLimit  = 255
	addressOctets6 = 16
)

// Kind is the kind of a request.
type Kind int

const (
	Nothing Kind = iota // no request, an invalid one, or one for a foreign address
	ARP
	ND
)

// Answer returns the reply to a request for an address of the set in a VLAN, from a port with the
// MAC own. The request is untagged, as Linux delivers it to packet sockets, and so is the reply.
//
// A request that RFC 826 or RFC 4861 (section 7.1.1) calls invalid gets no reply: wrong checksum,
// hop limit below 255, inconsistent lengths.
func (s *Set) Answer(request []byte, vlan uint16, own net.HardwareAddr) ([]byte, Kind) {
	if len(request) < ethernetSize || len(own) != 6 || bytes.Equal(request[6:12], own) {
		return nil, Nothing
	}
	switch body := request[ethernetSize:]; binary.BigEndian.Uint16(request[12:]) {
	case typeARP:
		return s.arp(body, vlan, own)
	case typeIP6:
		return s.nd(body, request[6:12], vlan, own)
	}
	return nil, Nothing
}

// arp answers a request (RFC 826), including a probe from 0.0.0.0 (RFC 5227).
func (s *Set) arp(request []byte, vlan uint16, own net.HardwareAddr) ([]byte, Kind) {
	asks := []byte{0, 1, 8, 0, 6, 4, 0, 1} // Ethernet, IPv4, their lengths, request
	if len(request) < arpSize || !bytes.Equal(request[:8], asks) || request[8]&1 != 0 {
		return nil, Nothing
	}
	target := request[24:28]
	if a, _ := netip.AddrFromSlice(target); !s.Has(a, vlan) {
		return nil, Nothing
	}
	answer := ethernet(request[8:14], own, typeARP)
	answer = append(answer, asks...)
	answer[ethernetSize+7] = 2
	answer = append(append(answer, own...), target...)
	return append(answer, request[8:18]...), ARP
}

// nd answers a neighbour solicitation (RFC 4861 section 7.2.4). A solicitation without a source is
// duplicate address detection: its answer goes to the all-nodes group.
func (s *Set) nd(packet, from []byte, vlan uint16, own net.HardwareAddr) ([]byte, Kind) {
	if len(packet) < ip6Size+targetSize {
		return nil, Nothing
	}
	length := int(binary.BigEndian.Uint16(packet[4:]))
	if packet[0]>>4 != 6 || packet[6] != protocolICMP6 || packet[7] != wholeHopLimit ||
		length < targetSize || length > len(packet)-ip6Size {
		return nil, Nothing
	}
	icmp := packet[ip6Size : ip6Size+length]
	source, _ := netip.AddrFromSlice(packet[8:24])
	target, _ := netip.AddrFromSlice(icmp[8:24])
	if icmp[0] != solicitation || icmp[1] != 0 || source.IsMulticast() || checksum6(packet[8:40], icmp) != 0 || !s.Has(target, vlan) {
		return nil, Nothing
	}
	asker, valid := sourceAddress(icmp[targetSize:])
	if !valid || source.IsUnspecified() && asker != nil {
		return nil, Nothing
	}
	if asker == nil {
		asker = from
	}
	flags, to := byte(solicited|override), packet[8:24]
	if source.IsUnspecified() {
		flags, to = override, net.IPv6linklocalallnodes
		asker = net.HardwareAddr{0x33, 0x33, 0, 0, 0, 1}
	}
	return advertise(ethernet(asker, own, typeIP6), to, icmp[8:24], flags, own), ND
}

// sourceAddress returns the source link-layer address option, nil without one; valid is false if an
// option is truncated or has no length.
func sourceAddress(options []byte) (mac []byte, valid bool) {
	for len(options) > 0 {
		if len(options) < 8 || options[1] == 0 || int(options[1])*8 > len(options) {
			return nil, false
		}
		if options[0] == sourceOption && options[1] == 1 && options[2]&1 == 0 {
			mac = options[2:8]
		}
		options = options[int(options[1])*8:]
	}
	return mac, true
}

func advertise(answer, to, target []byte, flags byte, own net.HardwareAddr) []byte {
	const length = targetSize + 8
	packet := append(answer, 0x60, 0, 0, 0, 0, length, protocolICMP6, wholeHopLimit)
	packet = append(append(packet, target...), to...)
	at := len(packet)
	packet = append(packet, advertisement, 0, 0, 0, flags, 0, 0, 0)
	packet = append(append(packet, target...), targetOption, 1)
	packet = append(packet, own...)
	addresses := packet[at-2*addressOctets6 : at]
	binary.BigEndian.PutUint16(packet[at+2:], checksum6(addresses, packet[at:]))
	return packet
}

// checksum6 returns the checksum of an ICMPv6 message with its pseudo-header (RFC 8200 section
// 8.1); it is 0 if the message carries a correct checksum.
func checksum6(addresses, message []byte) uint16 {
	pseudo := binary.BigEndian.AppendUint32(nil, uint32(len(message)))
	return frame.Checksum(addresses, pseudo, []byte{0, 0, 0, protocolICMP6}, message)
}

func ethernet(to, from []byte, etherType uint16) []byte {
	octets := append(append(make([]byte, 0, 96), to...), from...)
	return binary.BigEndian.AppendUint16(octets, etherType)
}
