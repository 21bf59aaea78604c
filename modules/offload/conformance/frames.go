// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"bytes"
	"encoding/binary"
	"net/netip"

	"weir/modules/offload/state"
)

var network = binary.BigEndian

// marker starts the payload of every frame of the suite, followed by its number.
var marker = []byte("WEIR-CONFORMANCE")

// frame builds a frame. Zero values give a plain packet.
type frame struct {
	to, from state.MAC
	vlan     int // 0 for no tag
	pcp      int
	source   netip.Addr
	dest     netip.Addr
	ttl      uint8
	size     int    // payload bytes beyond marker and number
	options  []byte // of IPv4, a multiple of 4
	headers  []byte // extension headers of IPv6; next is the first one's number
	next     uint8  // 0 is UDP
	offset   uint16 // of IPv4: flags and fragment offset
	tos      uint8
	badSum   bool // a wrong header checksum
	length   int  // added to the length field
	padding  int  // bytes after the packet
}

const udp = 17

// bytes is the frame with a number.
func (f frame) bytes(number uint32) []byte {
	payload := append(append([]byte{}, marker...), binary.BigEndian.AppendUint32(nil, number)...)
	payload = append(payload, make([]byte, f.size)...)
	datagram := make([]byte, 8, 8+len(payload))
	network.PutUint16(datagram, 1234)
	network.PutUint16(datagram[2:], 9)
	network.PutUint16(datagram[4:], uint16(8+len(payload)))
	datagram = append(datagram, payload...)
	b := append(append([]byte{}, f.to[:]...), f.from[:]...)
	if f.vlan != 0 || f.pcp != 0 {
		b = network.AppendUint16(network.AppendUint16(b, 0x8100), uint16(f.pcp<<13|f.vlan))
	}
	if f.dest.Is4() {
		b = append(network.AppendUint16(b, 0x0800), f.ip4(datagram)...)
	} else {
		b = append(network.AppendUint16(b, 0x86dd), f.ip6(datagram)...)
	}
	return append(b, make([]byte, f.padding)...)
}

func (f frame) protocol() uint8 {
	switch f.next {
	case 0:
		return udp
	case hopByHop:
		return 0
	}
	return f.next
}

func (f frame) ip4(datagram []byte) []byte {
	h := make([]byte, 20+len(f.options))
	h[0], h[1] = byte(0x40|len(h)/4), f.tos
	network.PutUint16(h[2:], uint16(len(h)+len(datagram)+f.length))
	network.PutUint16(h[4:], 0x4242)
	network.PutUint16(h[6:], f.offset)
	h[8], h[9] = f.ttl, f.protocol()
	source, dest := f.source.As4(), f.dest.As4()
	copy(h[12:], source[:])
	copy(h[16:], dest[:])
	copy(h[20:], f.options)
	network.PutUint16(h[10:], ^sum(h))
	if f.badSum {
		h[10] ^= 0x55
	}
	return append(h, datagram...)
}

func (f frame) ip6(datagram []byte) []byte {
	h := make([]byte, 40)
	h[0], h[1] = 0x60|f.tos>>4, f.tos<<4
	network.PutUint16(h[4:], uint16(len(f.headers)+len(datagram)+f.length))
	h[6], h[7] = f.protocol(), f.ttl
	source, dest := f.source.As16(), f.dest.As16()
	copy(h[8:], source[:])
	copy(h[24:], dest[:])
	return append(append(h, f.headers...), datagram...)
}

// sum is the checksum of RFC 1071.
func sum(b []byte) uint16 {
	total := uint32(0)
	for i := 0; i+1 < len(b); i += 2 {
		total += uint32(network.Uint16(b[i:]))
	}
	for total > 0xffff {
		total = total&0xffff + total>>16
	}
	return uint16(total)
}

// numberOf returns the number of a captured frame, or of the frame quoted in it.
func numberOf(b []byte) (uint32, bool) {
	at := bytes.Index(b, marker)
	if at < 0 || len(b) < at+len(marker)+4 {
		return 0, false
	}
	return network.Uint32(b[at+len(marker):]), true
}

// rationed reports whether a frame is a message that the kernel rate-limits or delays: redirects
// and unreachable errors.
func rationed(b []byte) bool {
	ip := 14
	if len(b) > 18 && network.Uint16(b[12:]) == 0x8100 {
		ip = 18
	}
	switch {
	case len(b) < ip+42:
		return false
	case network.Uint16(b[ip-2:]) == 0x0800 && b[ip+9] == 1:
		const redirect, unreachable, port = 5, 3, 3
		return b[ip+20] == redirect || b[ip+20] == unreachable && b[ip+21] < port
	}
	const redirect6, unreachable6, address6, icmp6 = 137, 1, 3, 58
	return network.Uint16(b[ip-2:]) == 0x86dd && b[ip+6] == icmp6 && (b[ip+40] == redirect6 || b[ip+40] == unreachable6 && b[ip+41] == address6)
}

// settled removes the varying fields of a router's own message: the IPv4 identification and header
// checksum.
func settled(b []byte) []byte {
	ip := 14
	if len(b) > 18 && network.Uint16(b[12:]) == 0x8100 {
		ip = 18
	}
	if len(b) > ip+28 && network.Uint16(b[ip-2:]) == 0x0800 && b[ip+9] == 1 && b[ip+20] != 8 {
		b = bytes.Clone(b)
		copy(b[ip+4:ip+6], []byte{0, 0})
		copy(b[ip+10:ip+12], []byte{0, 0})
	}
	return b
}
