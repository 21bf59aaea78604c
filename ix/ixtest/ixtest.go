// SPDX-License-Identifier: Apache-2.0

// Package ixtest writes MRT tables for tests of exchanges.
package ixtest

import (
	"encoding/binary"
	"net/netip"
	"slices"
)

// Path is one path of a table.
type Path struct {
	Prefix   netip.Prefix
	Peer     int        // index of the peer
	NextHop  netip.Addr // invalid: no attribute NEXT_HOP
	ASPath   []uint32
	Pref     uint32 // LOCAL_PREF; 0 for none
	Shutdown bool   // community GRACEFUL_SHUTDOWN
}

// Table returns a TABLE_DUMP_V2 file (RFC 6396, section 4.3) of peers with the addresses given.
// Paths of a prefix must be neighbors.
func Table(peers []netip.Addr, paths []Path) []byte {
	body := []byte{10, 99, 0, 1, 0, 0}
	body = binary.BigEndian.AppendUint16(body, uint16(len(peers)))
	for i, a := range peers {
		kind := byte(2) // AS numbers of four bytes
		if a.Is6() {
			kind |= 1
		}
		body = append(body, kind, 10, 0, 0, byte(i))
		body = append(body, a.AsSlice()...)
		body = binary.BigEndian.AppendUint32(body, 64500)
	}
	file := record(nil, 1, body)
	for n := 0; n < len(paths); {
		same := paths[n:]
		if end := slices.IndexFunc(same, func(p Path) bool { return p.Prefix != same[0].Prefix }); end > 0 {
			same = same[:end]
		}
		n += len(same)
		file = prefix(file, same)
	}
	return file
}

func record(file []byte, subtype uint16, body []byte) []byte {
	file = binary.BigEndian.AppendUint32(file, 1_700_000_000)
	file = binary.BigEndian.AppendUint16(file, 13)
	file = binary.BigEndian.AppendUint16(file, subtype)
	file = binary.BigEndian.AppendUint32(file, uint32(len(body)))
	return append(file, body...)
}

// prefix appends the record of one prefix.
func prefix(file []byte, paths []Path) []byte {
	p := paths[0].Prefix
	subtype := uint16(2)
	if p.Addr().Is6() {
		subtype = 4
	}
	body := append([]byte{0, 0, 0, 0, byte(p.Bits())}, p.Addr().AsSlice()[:(p.Bits()+7)/8]...)
	body = binary.BigEndian.AppendUint16(body, uint16(len(paths)))
	for _, path := range paths {
		attrs := attributes(path)
		body = binary.BigEndian.AppendUint16(body, uint16(path.Peer))
		body = append(body, 0, 0, 0, 0)
		body = binary.BigEndian.AppendUint16(body, uint16(len(attrs)))
		body = append(body, attrs...)
	}
	return record(file, subtype, body)
}

func attributes(p Path) []byte {
	attrs := []byte{0x40, 1, 1, 0} // ORIGIN IGP
	attrs = append(attrs, 0x40, 2, byte(2+4*len(p.ASPath)), 2, byte(len(p.ASPath)))
	for _, as := range p.ASPath {
		attrs = binary.BigEndian.AppendUint32(attrs, as)
	}
	switch {
	case p.NextHop.Is4():
		attrs = append(append(attrs, 0x40, 3, 4), p.NextHop.AsSlice()...)
	case p.NextHop.Is6():
		attrs = append(append(attrs, 0x80, 14, 17, 16), p.NextHop.AsSlice()...)
	}
	if p.Pref > 0 {
		attrs = binary.BigEndian.AppendUint32(append(attrs, 0x40, 5, 4), p.Pref)
	}
	if p.Shutdown {
		attrs = append(attrs, 0xc0, 8, 4, 0xff, 0xff, 0, 0)
	}
	return attrs
}
