// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"bytes"
	"encoding/binary"
)

// samples are frames that a link must not touch: IPv4, IPv6, ARP, tagged once and twice, of unknown
// type, short and long.
func samples() [][]byte {
	return [][]byte{
		udp4(0, 1, 60), udp4(3, 2, 1514), udp6(0, 100), udp6(2, 1514),
		tagged(udp4(1, 3, 500), 0x8100, 0x2064), tagged(udp6(1, 500), 0x8100, 0x0001),
		tagged(tagged(udp4(0, 4, 300), 0x8100, 0x0005), 0x88a8, 0x0006),
		numbered(1, 60)[0], numbered(1, 61)[0], numbered(1, 1514)[0],
		arp(),
	}
}

// udp4 is an IPv4 frame of the given length with a correct header checksum and payload without
// meaning.
func udp4(ecn byte, id uint16, length int) []byte {
	f := make([]byte, length)
	copy(f, addresses)
	f[12], f[13] = 0x08, 0x00
	ip := f[14:]
	copy(ip, []byte{0x45, 0xb8 | ecn, 0, 0, 0, 0, 0x40, 0, 64, 253, 0, 0, 192, 0, 2, 1, 192, 0, 2, 2})
	binary.BigEndian.PutUint16(ip[2:], uint16(len(ip)))
	binary.BigEndian.PutUint16(ip[4:], id)
	binary.BigEndian.PutUint16(ip[10:], checksum(ip[:20]))
	fill(ip[20:])
	return f
}

// udp6 is an IPv6 frame of the given length.
func udp6(ecn byte, length int) []byte {
	f := make([]byte, length)
	copy(f, addresses)
	f[12], f[13] = 0x86, 0xdd
	ip := f[14:]
	ip[0], ip[1], ip[6], ip[7] = 0x6b, 0x80|ecn<<4|5, 253, 64
	binary.BigEndian.PutUint16(ip[4:], uint16(len(ip)-40))
	copy(ip[8:], []byte{0x20, 0x01, 0x0d, 0xb8})
	copy(ip[24:], []byte{0x20, 0x01, 0x0d, 0xb8, 1})
	fill(ip[40:])
	return f
}

func arp() []byte {
	f := make([]byte, 60)
	copy(f, addresses)
	copy(f[12:], []byte{0x08, 0x06, 0, 1, 8, 0, 6, 4, 0, 2, 2, 0x57, 0, 0, 0, 0xa, 192, 0, 2, 1, 2, 0x57, 0, 0, 0, 0xb, 192, 0, 2, 2})
	return f
}

func tagged(frame []byte, tpid, tci uint16) []byte {
	tag := binary.BigEndian.AppendUint16(binary.BigEndian.AppendUint16(nil, tpid), tci)
	return append(append(bytes.Clone(frame[:12]), tag...), frame[12:]...)
}

func fill(b []byte) {
	for i := range b {
		b[i] = byte(i * 7)
	}
}

// checksum is the Internet checksum (RFC 1071), straightforward.
func checksum(b []byte) uint16 {
	var sum uint32
	for i := 0; i+1 < len(b); i += 2 {
		sum += uint32(b[i])<<8 | uint32(b[i+1])
	}
	for sum > 0xffff {
		sum = sum>>16 + sum&0xffff
	}
	return ^uint16(sum)
}

// withCE returns the untagged IPv4 or IPv6 frame with the mark CE.
func withCE(frame []byte) []byte {
	f := bytes.Clone(frame)
	if f[12] == 0x86 {
		f[15] |= 0x30
		return f
	}
	f[15] |= 3
	f[24], f[25] = 0, 0
	binary.BigEndian.PutUint16(f[24:], checksum(f[14:34]))
	return f
}
