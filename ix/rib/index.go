// SPDX-License-Identifier: Apache-2.0

package rib

import "math/bits"

// index is a set of numbers (rows, attribute sets) found by a 32-bit hash: open addressing with
// linear probing. A slot holds the hash and the number, 0 if empty, so that growth and removal do
// not read the things numbered. It is split in shards by the hash, so that growth doubles the
// memory of one shard only, and grows by half.
type index struct {
	shards [indexShards]shard
	n      int
}

const (
	indexShardBits = 6
	indexShards    = 1 << indexShardBits
)

type shard struct {
	slots []uint64
	n     int
}

// home is the first slot to try for a hash in a shard of n slots.
func home(hash uint32, n int) int {
	high, _ := bits.Mul64(uint64(hash)<<(32+indexShardBits), uint64(n))
	return int(high)
}

func slotOf(hash, number uint32) uint64 { return uint64(hash)<<32 | uint64(number) }

// find returns the number with a hash for which equal returns true, 0 if there is none.
func (x *index) find(hash uint32, equal func(number uint32) bool) uint32 {
	s := &x.shards[hash>>(32-indexShardBits)]
	n := len(s.slots)
	if n == 0 {
		return 0
	}
	for i := home(hash, n); ; {
		slot := s.slots[i]
		if slot == 0 {
			return 0
		}
		if uint32(slot>>32) == hash && equal(uint32(slot)) {
			return uint32(slot)
		}
		if i++; i == n {
			i = 0
		}
	}
}

// add adds a number that is not in the set. number is not 0.
func (x *index) add(hash, number uint32) {
	s := &x.shards[hash>>(32-indexShardBits)]
	if (s.n+1)*5 > len(s.slots)*4 {
		s.grow()
	}
	s.put(hash, number)
	s.n++
	x.n++
}

func (s *shard) put(hash, number uint32) {
	i := home(hash, len(s.slots))
	for s.slots[i] != 0 {
		if i++; i == len(s.slots) {
			i = 0
		}
	}
	s.slots[i] = slotOf(hash, number)
}

func (s *shard) grow() { s.resize(max(8, len(s.slots)+len(s.slots)/2)) }

func (s *shard) resize(n int) {
	old := s.slots
	s.slots = make([]uint64, n)
	for _, slot := range old {
		if slot != 0 {
			s.put(uint32(slot>>32), uint32(slot))
		}
	}
}

// remove removes a number that is in the set, and closes the gap.
func (x *index) remove(hash, number uint32) {
	s := &x.shards[hash>>(32-indexShardBits)]
	n := len(s.slots)
	i := home(hash, n)
	for s.slots[i] != slotOf(hash, number) {
		if i++; i == n {
			i = 0
		}
	}
	for j := i; ; {
		if j++; j == n {
			j = 0
		}
		slot := s.slots[j]
		if slot == 0 {
			break
		}
		// The slot may move to the gap unless its home lies between gap and slot, cyclically.
		h := home(uint32(slot>>32), n)
		if (j-h+n)%n >= (j-i+n)%n {
			s.slots[i] = slot
			i = j
		}
	}
	s.slots[i] = 0
	s.n--
	x.n--
	if len(s.slots) > 64 && s.n*4 < len(s.slots) {
		s.resize(len(s.slots) / 2)
	}
}

func (x *index) bytes() int64 {
	sum := int64(0)
	for i := range x.shards {
		sum += int64(len(x.shards[i].slots)) * 8
	}
	return sum
}
