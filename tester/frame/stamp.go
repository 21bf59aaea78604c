// SPDX-License-Identifier: Apache-2.0

package frame

import (
	"encoding/binary"

	"weir/tester"
)

const (
	second       = 1_000_000_000
	sequenceBits = 48
	// MaxSequence is the highest sequence number a stamp can carry.
	MaxSequence = 1<<sequenceBits - 1
)

// Stamp is the content of the last 18 octets of a stamped frame.
type Stamp struct {
	Stream   uint16
	Sequence uint64 // 48 bits
	Time     uint64 // ns of TAI, when the frame was sent
}

// PutStamp writes a stamp to the 18 octets of dst: 16 bits of stream and 48 of sequence, then 48
// bits of seconds and 32 of nanoseconds, all big endian.
func PutStamp(dst []byte, s Stamp) {
	_ = dst[tester.StampSize-1]
	seconds := s.Time / second
	binary.BigEndian.PutUint64(dst, uint64(s.Stream)<<sequenceBits|s.Sequence&MaxSequence)
	binary.BigEndian.PutUint16(dst[8:], uint16(seconds>>32))
	binary.BigEndian.PutUint32(dst[10:], uint32(seconds))
	binary.BigEndian.PutUint32(dst[14:], uint32(s.Time%second))
}

// readStamp reports false if the nanoseconds are not below 10^9 or the seconds do not fit a 64-bit
// count of ns.
func readStamp(octets []byte) (Stamp, bool) {
	number := binary.BigEndian.Uint64(octets)
	seconds := uint64(binary.BigEndian.Uint16(octets[8:]))<<32 | uint64(binary.BigEndian.Uint32(octets[10:]))
	ns := binary.BigEndian.Uint32(octets[14:])
	s := Stamp{Stream: uint16(number >> sequenceBits), Sequence: number & MaxSequence, Time: seconds*second + uint64(ns)}
	return s, ns < second && seconds < 1<<32
}
