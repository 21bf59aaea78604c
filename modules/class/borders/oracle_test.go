// SPDX-License-Identifier: Apache-2.0

package borders

import (
	"encoding/binary"
	"net/netip"
	"slices"
)

// become returns the expected output of a border for a frame, written from the RFCs without the
// programs: RFC 791 and 8200 for headers, 2474 for the DSCP, 1071 for the checksum. header is the
// number of bytes before an IP header without tags.
func become(t *Treatment, frame []byte, header int, incoming bool) []byte {
	ip, ok := network(frame, header)
	if !ok {
		return frame
	}
	out := slices.Clone(frame)
	packet := out[len(out)-len(ip):]
	var from, to netip.Addr
	var old byte
	if packet[0]>>4 == 4 {
		from, to = netip.AddrFrom4([4]byte(packet[12:16])), netip.AddrFrom4([4]byte(packet[16:20]))
		old = packet[1] >> 2
	} else {
		from, to = netip.AddrFrom16([16]byte(packet[8:24])), netip.AddrFrom16([16]byte(packet[24:40]))
		old = (packet[0]<<4 | packet[1]>>4) >> 2
	}
	given := old
	for _, p := range t.Translate {
		switch {
		case incoming && byte(p.Beyond) == old:
			given = byte(p.Here)
		case !incoming && byte(p.Here) == old:
			given = byte(p.Beyond)
		}
	}
	if incoming {
		given = marked(t, from, to, given)
	}
	if given == old {
		return out
	}
	if packet[0]>>4 == 6 {
		flow := binary.BigEndian.Uint32(packet)
		binary.BigEndian.PutUint32(packet, flow&^(0x3f<<22)|uint32(given)<<22)
		return out
	}
	length := int(packet[0]&15) * 4
	if length > len(packet) { // truncated: the checksum cannot be computed
		length = len(packet) &^ 1
	}
	wrong := onesComplement(packet[:length])
	packet[1] = given<<2 | packet[1]&3
	// The checksum that keeps the sum of all words unchanged.
	binary.BigEndian.PutUint16(packet[10:], 0)
	sum := uint32(onesComplement(packet[:length]))
	check := uint32(wrong) + (0xffff - sum)
	check = check>>16 + check&0xffff
	if check == 0xffff { // the other representation of zero, which RFC 1071's complement excludes
		check = 0
	}
	binary.BigEndian.PutUint16(packet[10:], uint16(check))
	return out
}

// marked returns the DSCP of the longest prefix, the source's on a tie, or keep.
func marked(t *Treatment, from, to netip.Addr, given byte) byte {
	best := Rule{Class: keep, Prefix: netip.Prefix{}} // of length -1
	for _, r := range t.From {
		if r.Prefix.Contains(from) && r.Prefix.Bits() > best.Prefix.Bits() {
			best = r
		}
	}
	for _, r := range t.To {
		if r.Prefix.Contains(to) && r.Prefix.Bits() > best.Prefix.Bits() {
			best = r
		}
	}
	if best.Class == keep {
		return given
	}
	return byte(best.DSCP)
}

// network returns the IP packet of a frame; false without a complete IP header.
func network(frame []byte, header int) ([]byte, bool) {
	rest, want := frame, byte(0)
	if header > 0 {
		for at, tags := 12, 0; ; at, tags = at+4, tags+1 {
			if len(frame) < at+2 || tags > 2 {
				return nil, false
			}
			kind := binary.BigEndian.Uint16(frame[at:])
			if kind == 0x8100 || kind == 0x88a8 {
				continue
			}
			want = map[uint16]byte{0x0800: 4, 0x86dd: 6}[kind]
			rest = frame[at+2:]
			break
		}
		if want == 0 {
			return nil, false
		}
	}
	if len(rest) < 20 || want != 0 && rest[0]>>4 != want {
		return nil, false
	}
	switch rest[0] >> 4 {
	case 4:
		return rest, rest[0]&15 >= 5
	case 6:
		return rest, len(rest) >= 40
	}
	return nil, false
}

// onesComplement is the sum of 16-bit words of RFC 1071.
func onesComplement(b []byte) uint16 {
	var sum uint32
	for i := 0; i+1 < len(b); i += 2 {
		sum += uint32(binary.BigEndian.Uint16(b[i:]))
	}
	for sum>>16 != 0 {
		sum = sum>>16 + sum&0xffff
	}
	return uint16(sum)
}
