// SPDX-License-Identifier: Apache-2.0

package model

import "encoding/binary"

// EtherTypes that MarkCE looks into.
const (
	typeIPv4  = 0x0800
	typeIPv6  = 0x86dd
	typeVLAN  = 0x8100 // IEEE 802.1Q
	typeQinQ  = 0x88a8 // IEEE 802.1ad
	tagLength = 4
)

// MarkCE sets Congestion Experienced in an ECN-capable IPv4 or IPv6 frame, VLAN-tagged or not, and
// keeps the IPv4 header checksum right (RFC 3168 section 5, RFC 1624 equation 3). It returns false,
// and changes nothing, for any other frame. A frame that carries the mark already counts as marked.
func MarkCE(frame []byte) bool {
	packet, kind := frame, uint16(0)
	for offset := 12; ; offset += tagLength {
		if len(frame) < offset+2 {
			return false
		}
		kind, packet = binary.BigEndian.Uint16(frame[offset:]), frame[offset+2:]
		if kind != typeVLAN && kind != typeQinQ {
			break
		}
	}
	switch {
	case kind == typeIPv4 && len(packet) >= 20:
		return markIPv4(packet)
	case kind == typeIPv6 && len(packet) >= 40:
		if packet[1]>>4&3 == 0 { // traffic class: the low half of octet 0, the high half of octet 1
			return false
		}
		packet[1] |= 0x30
		return true
	}
	return false
}

func markIPv4(packet []byte) bool {
	if packet[1]&3 == 0 {
		return false
	}
	before := binary.BigEndian.Uint16(packet)
	packet[1] |= 3
	after := binary.BigEndian.Uint16(packet)
	sum := uint32(^binary.BigEndian.Uint16(packet[10:])) + uint32(^before) + uint32(after)
	sum = sum&0xffff + sum>>16
	sum = sum&0xffff + sum>>16
	binary.BigEndian.PutUint16(packet[10:], ^uint16(sum))
	return true
}

// Damage inverts one bit behind the Ethernet header; bit is Decision.Bit.
func Damage(frame []byte, bit int) { frame[ethernetHeader+bit/8] ^= 0x80 >> (bit % 8) }
