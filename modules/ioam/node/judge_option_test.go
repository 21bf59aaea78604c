// SPDX-License-Identifier: Apache-2.0

package node

import (
	"encoding/binary"
	"math/big"

	"weir/modules/ioam/proof"
)

// option applies a node's action on one option to the expected frame.
func (j *judge) option(result *ruling, e extension, o tlv, leaving bool) (flaw string) {
	if flaw := o.frameFlaw(); flaw != "" {
		return flaw
	}
	kind, data := o.octets[3], o.octets[4:]
	if kind > 4 {
		return ""
	}
	if len(data) < 4 {
		return flawShort
	}
	n, known := j.namespaces[binary.BigEndian.Uint16(data)]
	if !known || !leaving && !n.Remove {
		return ""
	}
	at := e.from + o.at
	if !leaving {
		result.ended = append(result.ended, tlv{o.kind, at, o.octets})
	}
	if kind == 1 { // not defined by RFC 9486
		return ""
	}
	if flaw := bodyFlaw(kind, data); flaw != "" {
		return flaw
	}
	if o.kind == 0x11 && (kind == 0 || kind == 2 && data[2] == 0) { // must not change en route
		return ""
	}
	switch at += 4; kind {
	case 0:
		j.trace(result, n, at)
	case 2:
		if data[2] == 0 && len(n.Proof) > 0 {
			id := binary.BigEndian.Uint64(data[4:])
			binary.BigEndian.PutUint64(result.want[at+12:], transit(n.Proof[id&1], id, binary.BigEndian.Uint64(data[12:])))
		}
	}
	return ""
}

// transit returns the next cumulative value of a proof.
func transit(p proof.Profile, id, cumulative uint64) uint64 {
	prime := new(big.Int).SetUint64(p.Prime)
	sum := new(big.Int).SetUint64(p.Share)
	sum.Add(sum, new(big.Int).SetUint64(id)).Mul(sum, new(big.Int).SetUint64(p.Lagrange))
	sum.Add(sum, new(big.Int).SetUint64(cumulative^p.MaskIn)).Mod(sum, prime)
	return sum.Uint64() ^ p.MaskOut
}

// trace records in the trace with data at an offset of the frame.
func (j *judge) trace(result *ruling, n Namespace, at int) {
	frame := result.want
	head, kind := binary.BigEndian.Uint32(frame[at:]), binary.BigEndian.Uint32(frame[at+4:])>>8
	if head>>8&1 == 1 { // active
		j.counts["active"]++
		result.probe = true
	}
	if head>>10&1 == 1 { // overflow
		j.counts["full"]++
		return
	}
	words, complement, loose := nodeData(n, frame[ethernet+7], kind)
	module := int(head & 127)
	if len(words) > module {
		frame[at+2] |= 4
		j.counts["overflow"]++
		return
	}
	j.counts["recorded"]++
	frame[at+3] = frame[at+3]&128 | byte(module-len(words))
	place := at + 8 + 4*(module-len(words))
	for i, word := range words {
		binary.BigEndian.PutUint32(frame[place+4*i:], word)
	}
	for _, word := range loose {
		result.loose = append(result.loose, span{place + 4*word, place + 4*word + 4})
	}
	if complement {
		result.sums = append(result.sums, span{place, place + 4*len(words)})
	}
}

// nodeData returns the data of aNode in the order of RFC 9197 section 4.4.2, and the words that
// depend on the time.
func nodeData(n Namespace, hopLimit byte, kind uint32) (words []uint32, complement bool, loose []int) {
	hop := uint32(hopLimit) << 24
	fields := [24][]uint32{
		0: {hop | 0x010203}, 1: {11<<16 | 11}, 2: {0}, 3: {0}, 4: {1<<32 - 1}, 5: {n.Data}, 6: {0}, 7: {0},
		8: {hop | 0x0a0b0c, 0x0d0e0f10}, 9: {0x11223344, 0x11223344}, 10: {uint32(n.Wide >> 32), uint32(n.Wide)},
		22: {uint32(len(n.State)/4)<<24 | n.Schema}, 23: {},
	}
	for i := 0; i < len(n.State); i += 4 {
		fields[22] = append(fields[22], binary.BigEndian.Uint32(n.State[i:]))
	}
	for bit, values := range fields {
		if kind>>(23-bit)&1 == 0 {
			continue
		}
		switch {
		case bit == 2 || bit == 3 || bit == 6 || bit == 7: // times, queue depth, Checksum Complement
			loose = append(loose, len(words))
			complement = complement || bit == 7
		case bit >= 11 && bit < 22: // buffer occupancy, and undefined fields
			values = []uint32{1<<32 - 1}
		}
		words = append(words, values...)
	}
	return words, complement, loose
}
