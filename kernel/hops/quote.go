// SPDX-License-Identifier: Apache-2.0

package hops

import (
	"encoding/binary"
	"net/netip"

	"weir/internal/dscp"
)

// Protocols of probes.
const (
	protocolTCP = 6
	protocolUDP = 17
)

// Kind is the meaning of an ICMP error.
type Kind string

const (
	Exceeded        Kind = "hop limit exceeded"
	PortUnreachable Kind = "port unreachable"
	Unreachable     Kind = "unreachable" // by a hop without a route, or with a filter
)

// Quote is an ICMP error and the header that it quotes.
type Quote struct {
	Kind Kind
	// DSCP is the code point of the packet at the sender of the error.
	DSCP     dscp.DSCP
	To       netip.Addr // destination of the quoted packet
	Protocol uint8
	// Ports of the quoted packet; Length is that of a UDP datagram with its header, in bytes.
	FromPort, ToPort, Length uint16
}

const (
	icmpHeader = 8
	ip6Header  = 40
	ports      = 8 // bytes of the transport header in every error (RFC 792)
)

// ParseIPv4 reads an IPv4 packet with an ICMP error (RFC 792); false for every other packet.
func ParseIPv4(packet []byte) (Quote, bool) {
	header, ok := header4(packet)
	if !ok || packet[9] != 1 || len(packet) < header+icmpHeader {
		return Quote{}, false
	}
	kind, ok := kind4(packet[header], packet[header+1])
	if !ok {
		return Quote{}, false
	}
	inner := packet[header+icmpHeader:]
	header, ok = header4(inner)
	if !ok || binary.BigEndian.Uint16(inner[6:])&0x1fff != 0 { // a later fragment has no ports
		return Quote{}, false
	}
	q := Quote{Kind: kind, DSCP: dscp.DSCP(inner[1] >> 2), To: netip.AddrFrom4([4]byte(inner[16:20])), Protocol: inner[9]}
	return q.transport(inner[header:])
}

// header4 returns the length of an IPv4 header in bytes.
func header4(b []byte) (length int, ok bool) {
	if len(b) < 20 || b[0]>>4 != 4 {
		return 0, false
	}
	length = int(b[0]&15) * 4
	return length, length >= 20 && length <= len(b)
}

func kind4(kind, code byte) (Kind, bool) {
	switch {
	case kind == 11 && code == 0:
		return Exceeded, true
	case kind == 3 && code == 3: // fragmentation needed
		return PortUnreachable, true
	case kind == 3 && code != 4: // except a request for smaller packets
		return Unreachable, true
	}
	return "", false
}

// ParseIPv6 reads an ICMPv6 error (RFC 4443); false for every other message.
func ParseIPv6(message []byte) (Quote, bool) {
	if len(message) < icmpHeader+ip6Header {
		return Quote{}, false
	}
	kind, ok := kind6(message[0], message[1])
	inner := message[icmpHeader:]
	if !ok || inner[0]>>4 != 6 {
		return Quote{}, false
	}
	q := Quote{Kind: kind, DSCP: dscp.DSCP(binary.BigEndian.Uint16(inner) >> 6 & 63), To: netip.AddrFrom16([16]byte(inner[24:40]))}
	next, rest, ok := extensions(inner[6], inner[ip6Header:])
	if q.Protocol = next; !ok {
		return Quote{}, false
	}
	return q.transport(rest)
}

func kind6(kind, code byte) (Kind, bool) {
	switch {
	case kind == 3 && code == 0:
		return Exceeded, true
	case kind == 1 && code == 4:
		return PortUnreachable, true
	case kind == 1:
		return Unreachable, true
	}
	return "", false
}

// extensions skips options and routing headers, and the header of a first fragment.
func extensions(next byte, b []byte) (byte, []byte, bool) {
	for next == 0 || next == 43 || next == 60 || next == 44 {
		length := 8
		if len(b) < length {
			return 0, nil, false
		}
		if next != 44 {
			length += int(b[1]) * 8
		} else if binary.BigEndian.Uint16(b[2:])&^7 != 0 {
			return 0, nil, false // a later fragment has no ports
		}
		if len(b) < length {
			return 0, nil, false
		}
		next, b = b[0], b[length:]
	}
	return next, b, true
}

// transport reads the ports.
func (q Quote) transport(b []byte) (Quote, bool) {
	if len(b) < ports || q.Protocol != protocolTCP && q.Protocol != protocolUDP {
		return Quote{}, false
	}
	q.FromPort, q.ToPort = binary.BigEndian.Uint16(b), binary.BigEndian.Uint16(b[2:])
	if q.Protocol == protocolUDP {
		q.Length = binary.BigEndian.Uint16(b[4:])
	}
	return q, true
}
