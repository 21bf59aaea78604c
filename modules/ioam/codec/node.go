// SPDX-License-Identifier: Apache-2.0

package codec

import "encoding/binary"

// Values of fields that a node could not fill (RFC 9197 section 4.4.2), by width.
const (
	None8  = 0xff
	None16 = 0xffff
	None24 = 0xff_ffff
	None32 = 0xffff_ffff
	None56 = 0xff_ffff_ffff_ffff
	None64 = 0xffff_ffff_ffff_ffff
)

// Node is the data of one node in a trace; the TraceType selects its fields.
type Node struct {
	HopLimit        uint8
	ID              uint32 // 24 bits
	Ingress, Egress uint16
	Seconds         uint32
	Fraction        uint32 // of a second: nanoseconds in the PTP format, microseconds in the POSIX one
	TransitDelay    uint32 // nanoseconds; 0x80000000 and above: longer
	Data            uint32
	QueueDepth      uint32
	Checksum        uint32
	WideHopLimit    uint8
	WideID          uint64 // 56 bits
	WideIngress     uint32
	WideEgress      uint32
	WideData        uint64
	Occupancy       uint32
	Undefined       [10]uint32 // one for each bit from 12 to 21
	Schema          uint32     // 24 bits
	Opaque          []byte
}

// reader reads words from the front.
type reader struct {
	rest []byte
	fits bool
}

func (r *reader) word() uint32 {
	if len(r.rest) < 4 {
		r.fits = false
		return 0
	}
	word := binary.BigEndian.Uint32(r.rest)
	r.rest = r.rest[4:]
	return word
}

func (r *reader) long() uint64 { return uint64(r.word())<<32 | uint64(r.word()) }

// readNode decodes the first node of a list and returns its size in octets.
func readNode(b []byte, fields TraceType) (n Node, size int, ok bool) {
	r := reader{b, true}
	if fields&HopLimitNode != 0 {
		word := r.word()
		n.HopLimit, n.ID = uint8(word>>24), word&None24
	}
	if fields&Interfaces != 0 {
		word := r.word()
		n.Ingress, n.Egress = uint16(word>>16), uint16(word)
	}
	for _, f := range [...]struct {
		field TraceType
		to    *uint32
	}{{Seconds, &n.Seconds}, {Fraction, &n.Fraction}, {TransitDelay, &n.TransitDelay}, {NamespaceData, &n.Data}, {QueueDepth, &n.QueueDepth}, {Checksum, &n.Checksum}} {
		if fields&f.field != 0 {
			*f.to = r.word()
		}
	}
	if fields&WideHopLimitNode != 0 {
		long := r.long()
		n.WideHopLimit, n.WideID = uint8(long>>56), long&None56
	}
	if fields&WideInterfaces != 0 {
		n.WideIngress, n.WideEgress = r.word(), r.word()
	}
	if fields&WideData != 0 {
		n.WideData = r.long()
	}
	if fields&BufferOccupancy != 0 {
		n.Occupancy = r.word()
	}
	for i := range n.Undefined {
		if fields&(1<<11>>i) != 0 {
			n.Undefined[i] = r.word()
		}
	}
	if fields&Opaque != 0 {
		word := r.word()
		n.Schema = word & None24
		length := 4 * int(word>>24)
		if length > len(r.rest) {
			return n, 0, false
		}
		n.Opaque, r.rest = r.rest[:length:length], r.rest[length:]
	}
	return n, len(b) - len(r.rest), r.fits
}

// append writes the node's data.
func (n *Node) append(b []byte, fields TraceType) []byte {
	if fields&HopLimitNode != 0 {
		b = binary.BigEndian.AppendUint32(b, uint32(n.HopLimit)<<24|n.ID&None24)
	}
	if fields&Interfaces != 0 {
		b = binary.BigEndian.AppendUint32(b, uint32(n.Ingress)<<16|uint32(n.Egress))
	}
	words := [...]uint32{n.Seconds, n.Fraction, n.TransitDelay, n.Data, n.QueueDepth, n.Checksum}
	for i, word := range words {
		if fields&(Seconds>>i) != 0 {
			b = binary.BigEndian.AppendUint32(b, word)
		}
	}
	if fields&WideHopLimitNode != 0 {
		b = binary.BigEndian.AppendUint64(b, uint64(n.WideHopLimit)<<56|n.WideID&None56)
	}
	if fields&WideInterfaces != 0 {
		b = binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(b, n.WideIngress), n.WideEgress)
	}
	if fields&WideData != 0 {
		b = binary.BigEndian.AppendUint64(b, n.WideData)
	}
	if fields&BufferOccupancy != 0 {
		b = binary.BigEndian.AppendUint32(b, n.Occupancy)
	}
	for i, word := range n.Undefined {
		if fields&(1<<11>>i) != 0 {
			b = binary.BigEndian.AppendUint32(b, word)
		}
	}
	if fields&Opaque != 0 {
		b = binary.BigEndian.AppendUint32(b, uint32(len(n.Opaque)/4)<<24|n.Schema&None24)
		b = append(b, n.Opaque...)
	}
	return b
}
