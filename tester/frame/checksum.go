// SPDX-License-Identifier: Apache-2.0

package frame

import (
	"encoding/binary"

	"weir/tester"
)

// fold adds the carries of a ones' complement sum until it fits 16 bits.
func fold(sum uint32) uint16 {
	for sum>>16 != 0 {
		sum = sum&0xffff + sum>>16
	}
	return uint16(sum)
}

// sum returns the ones' complement sum of octets; the first is the high half of a word (RFC 1071).
func sum(octets []byte) uint16 {
	var total uint64
	for ; len(octets) >= 2; octets = octets[2:] {
		total += uint64(binary.BigEndian.Uint16(octets))
	}
	if len(octets) == 1 {
		total += uint64(octets[0]) << 8
	}
	for total>>16 != 0 {
		total = total&0xffff + total>>16
	}
	return uint16(total)
}

// at adjusts a sum of octets for an odd offset.
func at(sum uint16, odd bool) uint32 {
	if odd {
		return uint32(sum<<8 | sum>>8)
	}
	return uint32(sum)
}

// addresses returns the range of the pseudo-header addresses in the frame.
func (t *Template) addresses() (start, end int) {
	if t.IP6 {
		return t.Network + 8, t.Network + ip6Size
	}
	return t.Network + 12, t.Network + ip4Size
}

// sums computes NetworkSum and UDPSum.
func (t *Template) sums() {
	octets := append([]byte(nil), t.Octets...)
	for _, f := range t.Fields {
		f.put(octets, 0)
	}
	if t.Stamped {
		clear(octets[len(octets)-tester.StampSize:])
	}
	start, end := t.addresses()
	t.UDPSum = fold(uint32(sum(octets[start:end])) + uint32(sum(octets[t.UDP:])) + protocolUDP + uint32(len(octets)-t.UDP))
	if !t.IP6 {
		t.NetworkSum = sum(octets[t.Network : t.Network+ip4Size])
	}
}

// finish writes the checksums of a frame with fields and stamp in place.
func (t *Template) finish(octets []byte, fields []Field, stamp []byte) {
	network, udp := uint32(t.NetworkSum), uint32(t.UDPSum)
	for i := range fields {
		f := &fields[i]
		if f.NetworkMask|f.UDPMask == 0 {
			continue
		}
		value := binary.BigEndian.Uint32(octets[f.Offset:]) & f.Mask
		network += at(words(value&f.NetworkMask), f.Odd)
		udp += at(words(value&f.UDPMask), f.Odd)
	}
	if stamp != nil {
		udp += at(sum(stamp), (len(octets)-tester.StampSize-t.UDP)%2 == 1)
	}
	if !t.IP6 {
		binary.BigEndian.PutUint16(octets[t.Network+10:], ^fold(network))
	}
	check := ^fold(udp)
	if check == 0 {
		check = 0xffff
	}
	binary.BigEndian.PutUint16(octets[t.UDP+6:], check)
}

func words(value uint32) uint16 { return fold(value>>16 + value&0xffff) }

// Checksum returns the Internet checksum (RFC 1071) of the concatenated parts; all but the last
// have an even length.
func Checksum(parts ...[]byte) uint16 {
	total := uint32(0)
	for _, part := range parts {
		total += uint32(sum(part))
	}
	return ^fold(total)
}
