// SPDX-License-Identifier: Apache-2.0

package node

import (
	"encoding/binary"
	"math/rand/v2"

	"weir/modules/ioam/codec"
)

// mutant generates frames: chains of extension headers with IOAM and other options, most of them
// with mistakes.
type mutant struct{ *rand.Rand }

func (r mutant) one(of int) bool { return r.IntN(of) == 0 }

// frame returns a frame of a UDP datagram.
func (r mutant) frame() []byte {
	kinds := []byte{}
	for len(kinds) < 1+r.IntN(3)*r.IntN(2) || r.one(12) {
		if len(kinds) == 0 && !r.one(5) {
			kinds = append(kinds, 0)
		} else {
			kinds = append(kinds, []byte{60, 60, 60, 60, 43, 43, 43, 44, 44, 51, 51, 0, 0, 135, 139, 140}[r.IntN(16)])
		}
	}
	var headers []byte
	var places []int
	for _, kind := range kinds {
		places = append(places, len(headers))
		headers = append(headers, r.header(kind)...)
	}
	for i, at := range places {
		headers[at] = append(kinds[1:], 17)[i]
	}
	frame := packet(kinds[0], headers, r.IntN(20))
	for r.one(2) {
		frame = r.mutated(frame)
	}
	return frame
}

// header returns an extension header with an unset next header.
func (r mutant) header(kind byte) []byte {
	switch kind {
	case 43, 135, 139, 140:
		h := make([]byte, 8+8*r.IntN(3))
		if r.one(20) {
			h = make([]byte, 8+8*r.IntN(40))
		}
		h[1] = byte(len(h)/8 - 1)
		return h
	case 44:
		return []byte{0, 0, 0, byte(r.IntN(20) / 16 * 8), 1, 2, 3, 4}
	case 51:
		h := make([]byte, 8+4*r.IntN(6))
		h[1] = byte(len(h)/4 - 2)
		return h
	}
	h := []byte{0, 0}
	if r.one(2) { // the form written by nodes
		h = [][]byte{{0, 0, 1, 0}, {0, 0, 1, 4, 0, 0, 0, 0}}[r.IntN(2)]
	}
	for n := 1 + r.IntN(3)*r.IntN(3); n > 0; n-- {
		o := r.option()
		for ioam := o[0] == codec.Mutable || o[0] == codec.Immutable; ioam && len(h)%4 != 0; {
			h = append(h, 0)
		}
		h = append(h, o...)
		if r.one(60) { // more than the parser's limit
			for range r.IntN(60) {
				h = append(h, 0x1e, 0)
			}
		}
	}
	if len(h)%8 == 7 {
		h = append(h, 0)
	} else if gap := -len(h) & 7; gap > 0 {
		h = append(append(h, 1, byte(gap-2)), make([]byte, gap-2)...)
	}
	h[1] = byte(len(h)/8 - 1)
	return h[:min(len(h), maxHeader)]
}

// option returns an IOAM option or another one.
func (r mutant) option() []byte {
	namespace := []uint16{123, 123, 124, 124, 7}[r.IntN(5)]
	var body codec.Body
	switch r.IntN(10) {
	case 0:
		body = codec.Proof{Namespace: namespace, Kind: byte(r.IntN(6) / 5), PacketID: r.Uint64(), Cumulative: r.Uint64()}
	case 1:
		body = codec.Edge{Namespace: namespace, Fields: codec.EdgeType(r.Uint32()) & 0xf00f, Sequence: r.Uint64()}
	case 2:
		body = codec.Export{Namespace: namespace, Extensions: codec.Extensions(r.Uint32()) & 0xc0, Fields: codec.TraceType(r.Uint32()) & 0xffffff}
	case 3:
		return append([]byte{0x1e, 5}, "weir!"...)
	case 4:
		return [][]byte{{0}, {1, 0}, {1, 2, 0, 0}, {1, 5, 0, 0, 0, 0, 0}}[r.IntN(4)]
	case 5: // a returned copy
		trace := codec.NewTrace(124, codec.HopLimitNode, 1+r.IntN(8), 0)
		trace.Flags = codec.Loopback
		body = trace
	default:
		body = r.trace(namespace)
	}
	data := body.Append(nil)
	if r.one(20) {
		data = append(data, make([]byte, 1+r.IntN(3))...)
	}
	kind := byte(body.Type())
	if r.one(40) {
		kind = byte(r.IntN(8))
	}
	o := append([]byte{[]byte{codec.Mutable, codec.Immutable}[r.IntN(2)], byte(2 + len(data)), 0, kind}, data...)
	return o[:min(len(o), maxOption+2)]
}

func (r mutant) trace(namespace uint16) codec.Trace {
	fields := codec.TraceType(r.Uint32())
	for r.one(2) {
		fields &= codec.TraceType(r.Uint32())
	}
	if r.one(4) {
		fields = codec.HopLimitNode
	}
	t := codec.NewTrace(namespace, fields&0xffffff, 0, 0)
	t.Remaining = uint8(r.IntN(58))
	if r.one(5) {
		t.Flags = codec.Flags(r.IntN(16))
	}
	return t
}

// mutated breaks bytes behind the IPv6 header.
func (r mutant) mutated(frame []byte) []byte {
	if len(frame) <= atOptions {
		return frame
	}
	at := atOptions + r.IntN(min(len(frame)-atOptions, 1+r.IntN(300)))
	switch r.IntN(8) {
	case 0, 1:
		frame[at] ^= 1 << r.IntN(8)
	case 2:
		frame[at] = byte(r.Uint32())
	case 3:
		frame[at] = []byte{0, 1, 4, 255, codec.Mutable, codec.Immutable, 43, 60, 59, 139}[r.IntN(10)]
	case 4:
		if r.one(4) {
			return frame[:at]
		}
		binary.BigEndian.PutUint16(frame[min(at, len(frame)-2):], []uint16{123, 124}[r.IntN(2)])
	case 5: // insert bytes
		frame = append(frame[:at:at], append(make([]byte, 1+r.IntN(8)), frame[at:]...)...)
	case 6: // remove bytes
		frame = append(frame[:at:at], frame[min(len(frame), at+1+r.IntN(8)):]...)
	case 7:
		if r.one(3) { // noise with frequent option types
			for i := atOptions + 2; i < len(frame); i++ {
				frame[i] = []byte{0, 1, 2, 3, 4, codec.Mutable, codec.Immutable, byte(r.Uint32())}[r.IntN(8)]
			}
		}
	}
	return frame
}
