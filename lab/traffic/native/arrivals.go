// SPDX-License-Identifier: Apache-2.0

package native

import (
	"encoding/binary"
	"sync/atomic"
	"time"

	"weir/lab/traffic"
	"weir/record/hist"
)

// Every datagram begins with a stamp, big-endian: magic (4 bytes), zero (4), sequence number (8)
// from 0, and the time of its send call in ns since the flow began (8).
const (
	stampSize  = traffic.MinPayload
	stampMagic = 0x57656972
)

// stamp is a datagram's stamp.
type stamp struct {
	sequence uint64
	sent     time.Duration // since the flow began
}

func (s stamp) put(b []byte) {
	binary.BigEndian.PutUint32(b, stampMagic)
	binary.BigEndian.PutUint32(b[4:], 0)
	binary.BigEndian.PutUint64(b[8:], s.sequence)
	binary.BigEndian.PutUint64(b[16:], uint64(s.sent))
}

// readStamp returns a datagram's stamp; ok is false for foreign datagrams.
func readStamp(b []byte) (s stamp, ok bool) {
	if len(b) < stampSize || binary.BigEndian.Uint32(b) != stampMagic || binary.BigEndian.Uint32(b[4:]) != 0 {
		return s, false
	}
	s.sequence = binary.BigEndian.Uint64(b[8:])
	s.sent = time.Duration(binary.BigEndian.Uint64(b[16:]))
	return s, s.sent >= 0
}

// arrivals distinguishes datagrams by sequence number. One goroutine owns it; others may read the
// atomic fields.
type arrivals struct {
	seen       []uint64 // a bit per sequence number
	limit      uint64   // sequence numbers lie below
	next       uint64   // one above the highest sequence number seen
	count      atomic.Uint64
	longest    atomic.Int64 // delay in ns
	duplicates uint64
	outOfOrder uint64
	delay      hist.Histogram
}

func newArrivals(limit uint64) arrivals {
	return arrivals{seen: make([]uint64, (limit+63)/64), limit: limit}
}

// add records a datagram that was read at the time at since the flow began, and reports whether it
// is new. A datagram is out of order if a later one came before it (RFC 4737, section 3.3); a copy
// only counts as a duplicate.
func (a *arrivals) add(s stamp, at time.Duration) bool {
	if s.sequence >= a.limit {
		return false
	}
	word, bit := s.sequence/64, uint64(1)<<(s.sequence%64)
	if a.seen[word]&bit != 0 {
		a.duplicates++
		return false
	}
	a.seen[word] |= bit
	if s.sequence < a.next {
		a.outOfOrder++
	} else {
		a.next = s.sequence + 1
	}
	delay := max(at-s.sent, 0)
	a.delay.Record(uint64(delay))
	if int64(delay) > a.longest.Load() {
		a.longest.Store(int64(delay))
	}
	a.count.Add(1)
	return true
}
