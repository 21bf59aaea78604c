// SPDX-License-Identifier: Apache-2.0

package codec

import (
	"encoding/binary"
	"math/bits"
)

// TraceType selects the fields of each node (RFC 9197 section 4.4.1): 24 bits, bit 0 of the RFC is
// the most significant.
type TraceType uint32

// The fields, each with its number of words.
const (
	HopLimitNode     TraceType = 1 << 23 // 1
	Interfaces       TraceType = 1 << 22 // 1
	Seconds          TraceType = 1 << 21 // 1
	Fraction         TraceType = 1 << 20 // 1
	TransitDelay     TraceType = 1 << 19 // 1
	NamespaceData    TraceType = 1 << 18 // 1
	QueueDepth       TraceType = 1 << 17 // 1
	Checksum         TraceType = 1 << 16 // 1
	WideHopLimitNode TraceType = 1 << 15 // 2
	WideInterfaces   TraceType = 1 << 14 // 2
	WideData         TraceType = 1 << 13 // 2
	BufferOccupancy  TraceType = 1 << 12 // 1
	Undefined        TraceType = 0xffc   // 1 each
	Opaque           TraceType = 1 << 1  // variable: a length word and the state
	reservedBit      TraceType = 1

	wide = WideHopLimitNode | WideInterfaces | WideData
)

// Words returns NodeLen: the words of each node, except opaque state.
func (t TraceType) Words() int {
	t &^= Opaque | reservedBit
	return bits.OnesCount32(uint32(t)) + bits.OnesCount32(uint32(t&wide))
}

// Flags of a trace.
type Flags uint8

// The flags (RFC 9197 section 7.3, RFC 9322 section 6).
const (
	Overflow Flags = 8
	Loopback Flags = 4
	Active   Flags = 2
)

// TraceHead is the fixed part of a trace.
type TraceHead struct {
	Namespace uint16
	NodeLen   uint8 // words, 5 bits
	Flags     Flags // 4 bits
	Remaining uint8 // free words, 7 bits
	Fields    TraceType
}

// traceHead is the size of the fixed part in octets, including a reserved one.
const traceHead = 8

func readTraceHead(b []byte) TraceHead {
	word := binary.BigEndian.Uint32(b)
	return TraceHead{
		Namespace: uint16(word >> 16), NodeLen: uint8(word >> 11 & 0x1f), Flags: Flags(word >> 7 & 0xf), Remaining: uint8(word & 0x7f),
		Fields: TraceType(binary.BigEndian.Uint32(b[4:]) >> 8),
	}
}

func (h TraceHead) append(b []byte) []byte {
	b = binary.BigEndian.AppendUint16(b, h.Namespace)
	b = binary.BigEndian.AppendUint16(b, uint16(h.NodeLen&0x1f)<<11|uint16(h.Flags&0xf)<<7|uint16(h.Remaining&0x7f))
	return binary.BigEndian.AppendUint32(b, uint32(h.Fields&0xffffff)<<8)
}

// Trace is a trace option. Nodes are in option order: the last node of the path comes first.
type Trace struct {
	TraceHead
	Incremental bool
	Nodes       []Node
}

// NewTrace returns an empty pre-allocated trace for a number of nodes with opaque state of a number
// of words each.
func NewTrace(namespace uint16, fields TraceType, nodes, opaque int) Trace {
	module := nodes * fields.Words()
	if fields&Opaque != 0 {
		module += nodes * (1 + opaque)
	}
	return Trace{TraceHead: TraceHead{Namespace: namespace, NodeLen: uint8(fields.Words()), Remaining: uint8(module), Fields: fields}}
}

// Type returns the IOAM-Option-Type.
func (t Trace) Type() OptionType {
	if t.Incremental {
		return IncrementalTrace
	}
	return PreallocatedTrace
}

// Append writes the option's data.
func (t Trace) Append(b []byte) []byte {
	b = t.append(b)
	if !t.Incremental {
		b = append(b, make([]byte, 4*int(t.Remaining))...)
	}
	for i := range t.Nodes {
		b = t.Nodes[i].append(b, t.Fields)
	}
	return b
}

// CheckTrace decodes the fixed part of a trace and checks the stated lengths.
func CheckTrace(kind OptionType, data []byte) (h TraceHead, err error) {
	switch {
	case len(data) < traceHead:
		return h, wrong(ShortData, 0)
	case len(data)%4 != 0:
		return h, wrong(OddData, 0)
	}
	h = readTraceHead(data)
	if int(h.NodeLen) != h.Fields.Words() {
		return h, wrong(NodeLength, 2)
	}
	if kind == PreallocatedTrace && int(h.Remaining)*4 > len(data)-traceHead {
		return h, wrong(Remaining, 3)
	}
	return h, nil
}

// DecodeTrace decodes the data of a trace option of either kind.
func DecodeTrace(kind OptionType, data []byte) (t Trace, err error) {
	t.Incremental = kind == IncrementalTrace
	if t.TraceHead, err = CheckTrace(kind, data); err != nil {
		return t, err
	}
	at := traceHead
	if !t.Incremental {
		at += 4 * int(t.Remaining)
	}
	if t.NodeLen == 0 && t.Fields&Opaque == 0 {
		if at < len(data) {
			return t, wrong(NodeTruncated, at) // a node without fields has no list
		}
		return t, nil
	}
	if fixed := 4 * t.Fields.Words(); fixed > 0 {
		t.Nodes = make([]Node, 0, (len(data)-at)/fixed)
	}
	for at < len(data) {
		node, size, ok := readNode(data[at:], t.Fields)
		if !ok {
			return t, wrong(NodeTruncated, at)
		}
		t.Nodes = append(t.Nodes, node)
		at += size
	}
	return t, nil
}
