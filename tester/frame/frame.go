// SPDX-License-Identifier: Apache-2.0

// Package frame builds, stamps, modifies and parses the tester's frames. It is pure: the senders
// copy its frames, and tests compare sent frames with them.
//
// A frame is Ethernet, an optional 802.1Q tag, IPv4 or IPv6, and a UDP datagram that fills the
// rest. Sizes include the FCS, octets never do. A stamped payload is zeros and the 18-octet stamp
// at the very end; a static one is the stream's Payload, repeated, or zeros.
//
// Checksums: a template carries the sums of all constant parts, so that a sender adds only the
// stamp and the modified fields (RFC 1071, RFC 1624). Every frame has a valid UDP checksum, IPv4
// too. A datagram with the ones' complement checksum 0 carries 0xffff, because 0 means "none" (RFC
// 768).
package frame

import (
	"encoding/binary"

	"weir/tester"
)

const (
	ethernetSize = 14
	tagSize      = 4
	ip4Size      = 20
	ip6Size      = 40
	udpSize      = 8

	typeIP4 = 0x0800
	typeIP6 = 0x86dd
	typeTag = 0x8100

	protocolUDP = 17
	defaultTTL  = 64
)

// Template is the common content of all frames of one stream and size. Its checksums are valid for
// a zero stamp and unmodified fields. It must not be changed.
type Template struct {
	Size    int    // octets including the FCS
	Octets  []byte // without the FCS
	Stream  uint16
	Stamped bool
	Network int // offset of the IP header
	UDP     int // offset of the UDP header
	IP6     bool
	// NetworkSum and UDPSum are ones' complement sums, folded to 16 bits, of the octets covered by
	// the IPv4 header checksum and the UDP checksum, with zeros for the checksum itself, the stamp
	// and the modified bits.
	NetworkSum, UDPSum uint16
	Fields             []Field
}

// HeaderSize returns the octets before the UDP payload.
func HeaderSize(h tester.Header) int {
	size := ethernetSize + udpSize + ip4Size
	if h.Source.Is6() {
		size += ip6Size - ip4Size
	}
	if h.VLAN != 0 {
		size += tagSize
	}
	return size
}

// Smallest returns the smallest frame size, FCS included, that holds the headers and, if stamped,
// the stamp: 64 for untagged IPv4, 68 with a tag, 84 and 88 for IPv6.
func Smallest(h tester.Header, stamped bool) int {
	size := HeaderSize(h) + tester.FCSSize
	if stamped {
		size += tester.StampSize
	}
	smallest := MinSize
	if h.VLAN != 0 {
		smallest += tagSize
	}
	return max(size, smallest)
}

// Build makes the template of a stream's frames of the given size, FCS included. The stream must be
// valid: see Validate.
func Build(s tester.Stream, size int) (*Template, error) {
	if err := validate(s, []int{size}); err != nil {
		return nil, err
	}
	h := s.Header
	t := &Template{Size: size, Octets: make([]byte, size-tester.FCSSize), Stream: s.ID, Stamped: s.Stamped, IP6: h.Source.Is6()}
	t.Network = t.ethernet(h)
	if t.IP6 {
		t.UDP = t.Network + ip6Size
		t.network6(h)
	} else {
		t.UDP = t.Network + ip4Size
		t.network4(h)
	}
	udp := t.Octets[t.UDP:]
	binary.BigEndian.PutUint16(udp, h.SourcePort)
	binary.BigEndian.PutUint16(udp[2:], h.DestinationPort)
	binary.BigEndian.PutUint16(udp[4:], uint16(len(udp)))
	if !s.Stamped && len(s.Payload) > 0 {
		for at := udpSize; at < len(udp); {
			at += copy(udp[at:], s.Payload)
		}
	}
	t.Fields = t.fields(s.Modifiers)
	t.sums()
	t.finish(t.Octets, t.Fields, nil)
	return t, nil
}

func (t *Template) ethernet(h tester.Header) int {
	copy(t.Octets, h.DestinationMAC)
	copy(t.Octets[6:], h.SourceMAC)
	at := 12
	if h.VLAN != 0 {
		binary.BigEndian.PutUint16(t.Octets[at:], typeTag)
		binary.BigEndian.PutUint16(t.Octets[at+2:], uint16(h.PCP)<<13|uint16(h.VLAN))
		at += tagSize
	}
	etherType := uint16(typeIP4)
	if t.IP6 {
		etherType = typeIP6
	}
	binary.BigEndian.PutUint16(t.Octets[at:], etherType)
	return at + 2
}

func (t *Template) network4(h tester.Header) {
	ip := t.Octets[t.Network:]
	ip[0], ip[1] = 0x45, h.DSCP<<2|h.ECN
	binary.BigEndian.PutUint16(ip[2:], uint16(len(ip)))
	ip[6] = 0x40 // don't fragment, so the identification may be 0 (RFC 6864)
	ip[8], ip[9] = ttl(h), protocolUDP
	copy(ip[12:], h.Source.AsSlice())
	copy(ip[16:], h.Destination.AsSlice())
}

func (t *Template) network6(h tester.Header) {
	ip := t.Octets[t.Network:]
	binary.BigEndian.PutUint32(ip, 6<<28|uint32(h.DSCP<<2|h.ECN)<<20)
	binary.BigEndian.PutUint16(ip[4:], uint16(len(ip)-ip6Size))
	ip[6], ip[7] = protocolUDP, ttl(h)
	copy(ip[8:], h.Source.AsSlice())
	copy(ip[24:], h.Destination.AsSlice())
}

func ttl(h tester.Header) uint8 {
	if h.TTL == 0 {
		return defaultTTL
	}
	return h.TTL
}

// PayloadSize returns the octets of UDP payload.
func (t *Template) PayloadSize() int { return len(t.Octets) - t.UDP - udpSize }

// WireSize returns the octets on the wire, with FCS, preamble and gap.
func (t *Template) WireSize() int { return t.Size + tester.WireOverhead }

// Fill makes frame number n of the stream, counted from 0, in dst, and returns it. dst must hold
// len(t.Octets) octets and may hold an earlier frame of the same template; keepPayload keeps
// its payload. time is ns of TAI; it is not used without a stamp.
func (t *Template) Fill(dst []byte, n uint64, time uint64, keepPayload bool) []byte {
	dst = dst[:len(t.Octets)]
	if keepPayload {
		copy(dst, t.Octets[:t.UDP+udpSize])
	} else {
		copy(dst, t.Octets)
	}
	fields := t.Fields
	for i := range fields {
		fields[i].put(dst, fields[i].Value(n))
	}
	var stamp []byte
	if t.Stamped {
		stamp = dst[len(dst)-tester.StampSize:]
		PutStamp(stamp, Stamp{Stream: t.Stream, Sequence: n, Time: time})
	}
	t.finish(dst, fields, stamp)
	return dst
}
