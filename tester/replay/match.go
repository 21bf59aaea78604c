// SPDX-License-Identifier: Apache-2.0

package replay

import (
	"bytes"
	"hash/maphash"
	"sort"
	"time"

	"weir/record/hist"
)

// Arrived counts the sent frames at the far end.
type Arrived struct {
	Frames    uint64 `json:"frames"`    // distinct sent frames that arrived
	Missing   uint64 `json:"missing"`   // sent, never received
	Extra     uint64 `json:"extra"`     // duplicates of sent frames
	Foreign   uint64 `json:"foreign"`   // frames unlike any sent one
	Reordered uint64 `json:"reordered"` // RFC 4737: after a frame that was sent later
	Alike     uint64 `json:"alike"`     // sent frames with an identical one in the capture: distinguished by order alone
	Dropped   uint64 `json:"dropped"`   // by this machine before they were counted: missing frames may have arrived
	// Spacing is |time since the previous frame - the capture's spacing divided by the speed| in
	// ns, of frames that arrived in order without a loss between.
	Spacing *hist.Histogram `json:"spacing_error_ns"`
}

// matcher matches arrivals with sent frames. It is not safe for concurrent use.
type matcher struct {
	seed    maphash.Seed
	waiting map[uint64][]int // numbers of frames in one round of the capture, by their invariant fields
	frames  int              // in a round
	rounds  int
	used    []uint64                  // a bit for each frame of all rounds: it has arrived
	due     func(n int) time.Duration // nil without times

	arrived  Arrived
	highest  int // highest frame number that arrived; -1 is none
	last     int // the latest arrival
	lastTime time.Duration
}

func newMatcher(c Capture, rounds int, due func(int) time.Duration) *matcher {
	m := &matcher{seed: maphash.MakeSeed(), waiting: map[uint64][]int{}, frames: len(c.Frames), rounds: rounds, due: due, highest: -1, last: -1}
	m.used = make([]uint64, (len(c.Frames)*rounds+63)/64)
	m.arrived.Spacing = &hist.Histogram{}
	for i, f := range c.Frames {
		key := m.key(f.Octets)
		m.waiting[key] = append(m.waiting[key], i)
	}
	for _, same := range m.waiting {
		if len(same) > 1 {
			m.arrived.Alike += uint64(len(same) * rounds)
		}
	}
	return m
}

// key hashes the fields that a path preserves: all behind the MAC addresses and VLAN tags, except
// TTL, DSCP, ECN, the IPv4 header's checksum and padding.
func (m *matcher) key(octets []byte) uint64 {
	var h maphash.Hash
	h.SetSeed(m.seed)
	etherType, at := network(octets)
	_, _ = h.Write([]byte{byte(etherType >> 8), byte(etherType)})
	p, ok := parse(octets)
	switch {
	case !ok:
		_, _ = h.Write(bytes.TrimRight(octets[at:], "\x00"))
	case p.four:
		_, _ = h.Write(p.octets[2:8])
		_, _ = h.Write(p.octets[9:10])
		_, _ = h.Write(p.octets[12:])
	default:
		_, _ = h.Write(p.octets[1+3 : 7])
		_, _ = h.Write(p.octets[8:])
	}
	return h.Sum64()
}

// arrive counts a received frame.
func (m *matcher) arrive(octets []byte, at time.Duration) {
	same := m.waiting[m.key(octets)]
	if len(same) == 0 {
		m.arrived.Foreign++
		return
	}
	number := m.nearest(same, m.last+1)
	if number < 0 {
		m.arrived.Extra++
		return
	}
	m.used[number/64] |= 1 << (number % 64)
	m.arrived.Frames++
	if number < m.highest {
		m.arrived.Reordered++
	}
	m.highest = max(m.highest, number)
	if m.due != nil && m.last >= 0 && number == m.last+1 {
		off := (at - m.lastTime) - (m.due(number) - m.due(m.last))
		m.arrived.Spacing.Record(uint64(max(off, -off)))
	}
	m.last, m.lastTime = number, at
}

// nearest returns the identical frame, of all rounds, that is closest to the expected one and has
// not arrived; -1 if all have. The same frame of another round is a whole round away.
func (m *matcher) nearest(same []int, expected int) int {
	total := len(same) * m.rounds
	number := func(i int) int { return i/len(same)*m.frames + same[i%len(same)] }
	free := func(i int) bool { n := number(i); return m.used[n/64]>>(n%64)&1 == 0 }
	above := sort.Search(total, func(i int) bool { return number(i) >= expected })
	below := above - 1
	for above < total || below >= 0 {
		up := above < total && (below < 0 || number(above)-expected <= expected-number(below))
		switch {
		case up && free(above):
			return number(above)
		case up:
			above++
		case free(below):
			return number(below)
		default:
			below--
		}
	}
	return -1
}
