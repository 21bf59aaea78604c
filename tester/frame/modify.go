// SPDX-License-Identifier: Apache-2.0

package frame

import (
	"encoding/binary"
	"math/bits"

	"weir/tester"
)

// MaxModifiers is the maximum number of modifiers of a stream.
const MaxModifiers = 4

// Field is a modifier at a fixed place in a frame: the 32-bit big-endian word at Offset, limited to
// Mask.
type Field struct {
	Action      tester.Action
	Offset      int // octets from the start of the frame
	Mask        uint32
	Initial     uint32 // the masked bits of the stream's header: the first value of Increment and Decrement
	Repetitions uint64
	Seed        uint64 // of Random
	// NetworkMask and UDPMask select the octets covered by the IPv4 header and UDP checksums.
	NetworkMask, UDPMask uint32
	Odd                  bool // the word starts at an odd octet of the IP header
}

func (t *Template) fields(modifiers []tester.Modifier) []Field {
	var fields []Field
	start, end := t.addresses()
	for i, m := range modifiers {
		f := Field{
			Action: m.Action, Offset: m.Offset, Mask: mask(m), Repetitions: uint64(max(m.Repetitions, 1)),
			Seed: mix(uint64(t.Stream)<<8 | uint64(i)), Odd: (m.Offset-t.Network)&1 == 1,
		}
		f.Initial = binary.BigEndian.Uint32(t.Octets[f.Offset:]) & f.Mask
		for octet := range 4 {
			place, lane := f.Offset+octet, uint32(0xff000000)>>(8*octet)
			if !t.IP6 && place >= t.Network && place < t.Network+ip4Size {
				f.NetworkMask |= lane
			}
			if place >= start && place < end || place >= t.UDP {
				f.UDPMask |= lane
			}
		}
		f.NetworkMask &= f.Mask
		f.UDPMask &= f.Mask
		fields = append(fields, f)
	}
	return fields
}

// mask returns the mask of a modifier as the upper octets of a word.
func mask(m tester.Modifier) uint32 {
	var octets [4]byte
	copy(octets[:], m.Mask)
	return binary.BigEndian.Uint32(octets[:])
}

// Value returns the masked bits in frame number n of the stream, counted from 0. The masked bits,
// most significant first, form one number, even with gaps in the mask. Increment and Decrement
// count it up or down from its value in the header, modulo its range; Random draws each value
// independently. Every value stands in Repetitions consecutive frames.
func (f *Field) Value(n uint64) uint32 {
	step := n / f.Repetitions
	switch f.Action {
	case tester.Increment:
		return spread(uint64(gather(f.Initial, f.Mask))+step, f.Mask)
	case tester.Decrement:
		return spread(uint64(gather(f.Initial, f.Mask))-step, f.Mask)
	case tester.Random:
		return uint32(mix(f.Seed+step)>>32) & f.Mask
	}
	return f.Initial
}

func (f *Field) put(octets []byte, value uint32) {
	word := octets[f.Offset:]
	binary.BigEndian.PutUint32(word, binary.BigEndian.Uint32(word)&^f.Mask|value)
}

// gather collects the bits of value under mask at the low end, in their order.
func gather(value, mask uint32) uint32 {
	var out uint32
	for place := 0; mask != 0; place++ {
		bit := bits.TrailingZeros32(mask)
		out |= value >> bit & 1 << place
		mask &= mask - 1
	}
	return out
}

// spread is the reverse of gather for the low bits of number.
func spread(number uint64, mask uint32) uint32 {
	var out uint32
	for ; mask != 0; number >>= 1 {
		bit := bits.TrailingZeros32(mask)
		out |= uint32(number&1) << bit
		mask &= mask - 1
	}
	return out
}

// mix is the finalizer of SplitMix64 (Steele, Lea, Flood 2014): a fixed pseudo-random permutation.
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
