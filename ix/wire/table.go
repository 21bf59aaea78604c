// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"encoding/binary"
	"net/netip"
)

// AppendPeers appends a PEER_INDEX_TABLE (RFC 6396, section 4.3.1) of one peer to dst; time is in
// seconds since 1970.
func AppendPeers(dst []byte, time uint32, collector netip.Addr, peer Peer) []byte {
	dst, start := beginRecord(dst, time, ribPeers)
	id := collector.As4()
	dst = append(append(dst, id[:]...), 0, 0, 0, 1)
	kind := byte(2) // AS number of four bytes
	if peer.Addr.Is6() {
		kind |= 1
	}
	dst = append(dst, kind)
	id = netip.IPv4Unspecified().As4()
	if peer.ID.Is4() {
		id = peer.ID.As4()
	}
	dst = append(append(dst, id[:]...), peer.Addr.AsSlice()...)
	return finishRecord(binary.BigEndian.AppendUint32(dst, peer.AS), start)
}

// AppendPaths appends a RIB record with additional paths (RFC 8050, section 4) to dst: the paths of
// the first peer to a prefix, with path identifiers 1, 2, and so on. An entry has 65,535 paths at
// most.
func AppendPaths(dst []byte, time, sequence uint32, prefix netip.Prefix, paths []Attrs) []byte {
	subtype := uint16(ribIPv4AddPath)
	if prefix.Addr().Is6() {
		subtype = ribIPv6AddPath
	}
	dst, start := beginRecord(dst, time, subtype)
	dst = append(binary.BigEndian.AppendUint32(dst, sequence), byte(prefix.Bits()))
	dst = append(dst, prefix.Addr().AsSlice()[:(prefix.Bits()+7)/8]...)
	dst = binary.BigEndian.AppendUint16(dst, uint16(len(paths)))
	for i, attrs := range paths {
		dst = binary.BigEndian.AppendUint32(append(dst, 0, 0), time)
		dst = binary.BigEndian.AppendUint32(dst, uint32(i)+1)
		dst = append(binary.BigEndian.AppendUint16(dst, uint16(len(attrs))), attrs...)
	}
	return finishRecord(dst, start)
}

func beginRecord(dst []byte, time uint32, subtype uint16) ([]byte, int) {
	dst = binary.BigEndian.AppendUint32(dst, time)
	dst = binary.BigEndian.AppendUint16(dst, mrtTableDumpV2)
	dst = binary.BigEndian.AppendUint16(dst, subtype)
	return append(dst, 0, 0, 0, 0), len(dst) + 4
}

func finishRecord(dst []byte, start int) []byte {
	binary.BigEndian.PutUint32(dst[start-4:], uint32(len(dst)-start))
	return dst
}
