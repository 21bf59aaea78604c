// SPDX-License-Identifier: Apache-2.0

package codec

import (
	"fmt"
	"strings"
)

// The oracle reads options as a string of zeros and ones, from the figures of the RFCs alone, with
// the field names there.

// stream is a queue of bits; a read past its end marks it invalid.
type stream struct {
	bits  string
	spoil bool
}

func bitsOf(b []byte) *stream {
	var s strings.Builder
	for _, octet := range b {
		fmt.Fprintf(&s, "%08b", octet)
	}
	return &stream{bits: s.String()}
}

func (s *stream) take(n int) (value uint64) {
	if len(s.bits) < n {
		s.spoil, s.bits = true, ""
		return 0
	}
	for _, bit := range s.bits[:n] {
		value = value*2 + uint64(bit-'0')
	}
	s.bits = s.bits[n:]
	return value
}

// fieldTable has the fields of node data in the order of RFC 9197 section 4.4.2, by bit of the
// Trace-Type: name and width of each part.
var fieldTable = map[int][]struct {
	name  string
	width int
}{
	0: {{"hop limit", 8}, {"node", 24}}, 1: {{"ingress", 16}, {"egress", 16}}, 2: {{"seconds", 32}}, 3: {{"fraction", 32}}, 4: {{"delay", 32}},
	5: {{"data", 32}}, 6: {{"queue", 32}}, 7: {{"checksum", 32}}, 8: {{"wide hop limit", 8}, {"wide node", 56}},
	9: {{"wide ingress", 32}, {"wide egress", 32}}, 10: {{"wide data", 64}}, 11: {{"occupancy", 32}},
}

// oracleTrace describes the content of a trace; "" for an invalid one.
func oracleTrace(incremental bool, data []byte) string {
	s := bitsOf(data)
	var out strings.Builder
	namespace, length, flags, remaining := s.take(16), int(s.take(5)), s.take(4), int(s.take(7))
	set := map[int]bool{}
	for bit := range 24 {
		set[bit] = s.take(1) == 1
	}
	s.take(8)
	if s.spoil || len(s.bits)%32 != 0 {
		return ""
	}
	words := 0
	for bit := range 22 {
		if set[bit] {
			words++
			if bit >= 8 && bit <= 10 {
				words++
			}
		}
	}
	if words != length {
		return ""
	}
	fmt.Fprintf(&out, "namespace %d flags %d remaining %d\n", namespace, flags, remaining)
	if !incremental {
		for range remaining {
			s.take(32)
		}
	}
	if s.spoil || words == 0 && !set[22] && s.bits != "" {
		return ""
	}
	for s.bits != "" {
		for bit := range 22 {
			if !set[bit] {
				continue
			}
			parts := fieldTable[bit]
			if bit >= 12 {
				fmt.Fprintf(&out, "undefined %d=%d ", bit, s.take(32))
			}
			for _, part := range parts {
				fmt.Fprintf(&out, "%s=%d ", part.name, s.take(part.width))
			}
		}
		if set[22] {
			n := int(s.take(8))
			fmt.Fprintf(&out, "schema=%d opaque=", s.take(24))
			for range n {
				fmt.Fprintf(&out, "%08x", s.take(32))
			}
		}
		out.WriteString("\n")
	}
	if s.spoil {
		return ""
	}
	return out.String()
}

// described describes a decoded trace in the oracle's form.
func described(t Trace) string {
	var out strings.Builder
	fmt.Fprintf(&out, "namespace %d flags %d remaining %d\n", t.Namespace, t.Flags, t.Remaining)
	for _, n := range t.Nodes {
		values := map[int][]uint64{
			0: {uint64(n.HopLimit), uint64(n.ID)}, 1: {uint64(n.Ingress), uint64(n.Egress)}, 2: {uint64(n.Seconds)}, 3: {uint64(n.Fraction)},
			4: {uint64(n.TransitDelay)}, 5: {uint64(n.Data)}, 6: {uint64(n.QueueDepth)}, 7: {uint64(n.Checksum)}, 8: {uint64(n.WideHopLimit), n.WideID},
			9: {uint64(n.WideIngress), uint64(n.WideEgress)}, 10: {n.WideData}, 11: {uint64(n.Occupancy)},
		}
		for bit := range 22 {
			if t.Fields>>(23-bit)&1 == 0 {
				continue
			}
			if bit >= 12 {
				fmt.Fprintf(&out, "undefined %d=%d ", bit, n.Undefined[bit-12])
				continue
			}
			for i, part := range fieldTable[bit] {
				fmt.Fprintf(&out, "%s=%d ", part.name, values[bit][i])
			}
		}
		if t.Fields&Opaque != 0 {
			fmt.Fprintf(&out, "schema=%d opaque=%x", n.Schema, n.Opaque)
		}
		out.WriteString("\n")
	}
	return out.String()
}
