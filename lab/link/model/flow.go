// SPDX-License-Identifier: Apache-2.0

package model

import "encoding/binary"

// packetOf returns the packet after a frame's Ethernet header and VLAN tags, and its EtherType.
func packetOf(frame []byte) (packet []byte, kind uint16) {
	for offset := 12; len(frame) >= offset+2; offset += tagLength {
		if kind = binary.BigEndian.Uint16(frame[offset:]); kind != typeVLAN && kind != typeQinQ {
			return frame[offset+2:], kind
		}
	}
	return nil, 0
}

// ECNCapable reports whether MarkCE can mark the frame.
func ECNCapable(frame []byte) bool {
	packet, kind := packetOf(frame)
	switch {
	case kind == typeIPv4 && len(packet) >= 20:
		return packet[1]&3 != 0
	case kind == typeIPv6 && len(packet) >= 40:
		return packet[1]>>4&3 != 0
	}
	return false
}

// FlowHash hashes a frame's addresses, protocol and ports. All frames without IP are one flow.
func FlowHash(frame []byte) uint32 {
	packet, kind := packetOf(frame)
	h := hash(2166136261)
	var protocol byte
	var transport []byte
	switch {
	case kind == typeIPv4 && len(packet) >= 20:
		h.add(packet[12:20])
		protocol = packet[9]
		if length := int(packet[0]&15) * 4; binary.BigEndian.Uint16(packet[6:])&0x3fff == 0 && len(packet) >= length { // not a fragment
			transport = packet[length:]
		}
	case kind == typeIPv6 && len(packet) >= 40:
		h.add(packet[8:40])
		protocol, transport = packet[6], packet[40:]
	default:
		return 0
	}
	h.add([]byte{protocol})
	if (protocol == 6 || protocol == 17) && len(transport) >= 4 {
		h.add(transport[:4])
	}
	return h.mixed()
}

// hash is FNV-1a.
type hash uint32

func (h *hash) add(octets []byte) {
	for _, b := range octets {
		*h = (*h ^ hash(b)) * 16777619
	}
}

// mixed spreads the last bytes over the low bits too.
func (h hash) mixed() uint32 {
	x := uint32(h)
	x ^= x >> 16
	x *= 0x85ebca6b
	return x ^ x>>13
}
