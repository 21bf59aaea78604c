// SPDX-License-Identifier: Apache-2.0

package codec

import "encoding/binary"

// Proof is a proof of transit option of type 0 (RFC 9197 section 4.5.1).
type Proof struct {
	Namespace  uint16 `json:"namespace"`
	Kind       uint8  `json:"type"` // IOAM POT-Type
	Flags      uint8  `json:"flags"`
	PacketID   uint64 `json:"packet_id"`
	Cumulative uint64 `json:"cumulative"`
}

// Type returns ProofOfTransit.
func (Proof) Type() OptionType { return ProofOfTransit }

// Append writes the option's data.
func (p Proof) Append(b []byte) []byte {
	b = append(binary.BigEndian.AppendUint16(b, p.Namespace), p.Kind, p.Flags)
	return binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(b, p.PacketID), p.Cumulative)
}

// DecodeProof decodes the data of a proof of transit; for types other than 0, only the head.
func DecodeProof(data []byte) (p Proof, err error) {
	if len(data) < 4 {
		return p, wrong(ShortData, 0)
	}
	p.Namespace, p.Kind, p.Flags = binary.BigEndian.Uint16(data), data[2], data[3]
	if p.Kind != 0 {
		return p, nil
	}
	if len(data) != 20 {
		return p, wrong(FieldLength, 4)
	}
	p.PacketID, p.Cumulative = binary.BigEndian.Uint64(data[4:]), binary.BigEndian.Uint64(data[12:])
	return p, nil
}

// EdgeType selects the fields of an edge-to-edge option (RFC 9197 section 4.6).
type EdgeType uint16

// The fields.
const (
	Sequence64   EdgeType = 1 << 15
	Sequence32   EdgeType = 1 << 14
	EdgeSeconds  EdgeType = 1 << 13
	EdgeFraction EdgeType = 1 << 12
)

// Edge is an edge-to-edge option.
type Edge struct {
	Namespace uint16   `json:"namespace"`
	Fields    EdgeType `json:"fields"`
	Sequence  uint64   `json:"sequence"`
	Seconds   uint32   `json:"seconds"`
	Fraction  uint32   `json:"fraction"`
}

// Type returns EdgeToEdge.
func (Edge) Type() OptionType { return EdgeToEdge }

// Append writes the option's data.
func (e Edge) Append(b []byte) []byte {
	b = binary.BigEndian.AppendUint16(binary.BigEndian.AppendUint16(b, e.Namespace), uint16(e.Fields))
	if e.Fields&Sequence64 != 0 {
		b = binary.BigEndian.AppendUint64(b, e.Sequence)
	}
	if e.Fields&Sequence32 != 0 {
		b = binary.BigEndian.AppendUint32(b, uint32(e.Sequence))
	}
	if e.Fields&EdgeSeconds != 0 {
		b = binary.BigEndian.AppendUint32(b, e.Seconds)
	}
	if e.Fields&EdgeFraction != 0 {
		b = binary.BigEndian.AppendUint32(b, e.Fraction)
	}
	return b
}

// DecodeEdge decodes an edge-to-edge option. Octets after the known fields belong to unknown
// fields.
func DecodeEdge(data []byte) (e Edge, err error) {
	if len(data) < 4 {
		return e, wrong(ShortData, 0)
	}
	e.Namespace, e.Fields = binary.BigEndian.Uint16(data), EdgeType(binary.BigEndian.Uint16(data[2:]))
	if e.Fields&Sequence64 != 0 && e.Fields&Sequence32 != 0 {
		return e, wrong(SequenceTwice, 2)
	}
	r := reader{data[4:], true}
	if e.Fields&Sequence64 != 0 {
		e.Sequence = r.long()
	}
	if e.Fields&Sequence32 != 0 {
		e.Sequence = uint64(r.word())
	}
	if e.Fields&EdgeSeconds != 0 {
		e.Seconds = r.word()
	}
	if e.Fields&EdgeFraction != 0 {
		e.Fraction = r.word()
	}
	if !r.fits {
		return e, wrong(FieldLength, 4)
	}
	return e, nil
}

// Extensions of a direct export option: which optional fields it has (RFC 9326 section 3.2).
type Extensions uint8

// The optional fields.
const (
	FlowID         Extensions = 1 << 7
	ExportSequence Extensions = 1 << 6
)

// Export is a direct export option.
type Export struct {
	Namespace  uint16     `json:"namespace"`
	Flags      uint8      `json:"flags"`
	Extensions Extensions `json:"extensions"`
	Fields     TraceType  `json:"fields"` // fields for each node to export
	Flow       uint32     `json:"flow_id"`
	Sequence   uint32     `json:"sequence"`
}

// Type returns DirectExport.
func (Export) Type() OptionType { return DirectExport }

// Append writes the option's data.
func (x Export) Append(b []byte) []byte {
	b = append(binary.BigEndian.AppendUint16(b, x.Namespace), x.Flags, byte(x.Extensions))
	b = binary.BigEndian.AppendUint32(b, uint32(x.Fields)<<8)
	if x.Extensions&FlowID != 0 {
		b = binary.BigEndian.AppendUint32(b, x.Flow)
	}
	if x.Extensions&ExportSequence != 0 {
		b = binary.BigEndian.AppendUint32(b, x.Sequence)
	}
	return b
}

// DecodeExport decodes the data of a direct export option. It skips unknown optional fields, which
// must be present.
func DecodeExport(data []byte) (x Export, err error) {
	if len(data) < 8 {
		return x, wrong(ShortData, 0)
	}
	x.Namespace, x.Flags, x.Extensions = binary.BigEndian.Uint16(data), data[2], Extensions(data[3])
	x.Fields = TraceType(binary.BigEndian.Uint32(data[4:]) >> 8)
	r := reader{data[8:], true}
	for bit := FlowID; bit != 0; bit >>= 1 {
		if x.Extensions&bit == 0 {
			continue
		}
		switch word := r.word(); bit {
		case FlowID:
			x.Flow = word
		case ExportSequence:
			x.Sequence = word
		}
	}
	if !r.fits || len(r.rest) != 0 {
		return x, wrong(FieldLength, 3)
	}
	return x, nil
}
