// SPDX-License-Identifier: Apache-2.0

package replay

import "encoding/binary"

const (
	typeIP4 = 0x0800
	typeIP6 = 0x86dd
	ip4Size = 20
	ip6Size = 40
)

// network returns the EtherType behind VLAN tags and the offset of its payload.
func network(octets []byte) (etherType uint16, at int) {
	for at = 12; at+2 <= len(octets); at += 4 {
		etherType = binary.BigEndian.Uint16(octets[at:])
		if etherType != 0x8100 && etherType != 0x88a8 {
			return etherType, at + 2
		}
	}
	return 0, len(octets)
}

// packet is an IP header within a frame.
type packet struct {
	four      bool
	octets    []byte // from the IP header on, without padding behind the packet
	addresses []byte // source and destination
	protocol  byte   // of the transport, if it is accessible
	transport []byte // empty for a later fragment, and behind extension headers
}

// parse finds the IP packet in a frame; false without a complete header.
func parse(octets []byte) (p packet, ok bool) {
	etherType, at := network(octets)
	body := octets[at:]
	switch {
	case etherType == typeIP4 && len(body) >= ip4Size && body[0]>>4 == 4:
		header, total := int(body[0]&0xf)*4, int(binary.BigEndian.Uint16(body[2:]))
		if header < ip4Size || total < header || total > len(body) {
			return p, false
		}
		p = packet{four: true, octets: body[:total], addresses: body[12:20], protocol: body[9]}
		if binary.BigEndian.Uint16(body[6:])&0x1fff == 0 {
			p.transport = p.octets[header:]
		}
		return p, true
	case etherType == typeIP6 && len(body) >= ip6Size && body[0]>>4 == 6:
		total := ip6Size + int(binary.BigEndian.Uint16(body[4:]))
		if total > len(body) {
			return p, false
		}
		return packet{octets: body[:total], addresses: body[8:40], protocol: body[6], transport: body[ip6Size:total]}, true
	}
	return p, false
}
