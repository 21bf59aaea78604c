// SPDX-License-Identifier: Apache-2.0

package rib

import (
	"bytes"
	"encoding/binary"
	"hash/maphash"
)

// sets interns attribute sets. A set is a length (uvarint) and its bytes in an arena of blocks. A
// released set leaves a hole. If holes are more than half of a full block, the rest of the block
// moves to the end of the arena and the block is dropped; its memory lives on while a caller holds
// bytes of it.
type sets struct {
	seed   maphash.Seed
	index  index
	meta   vector[set] // by AttrID; 0 is unused
	free   AttrID      // head of the list of unused numbers
	unused int
	blocks []block
	spare  []uint32     // dropped blocks
	fresh  func(AttrID) // called for each number given out
	open   uint32       // the block that takes new sets
}

type set struct {
	at   uint32 // position in the arena; of an unused number: the next unused one
	refs uint32
}

type block struct {
	bytes []byte
	live  int // bytes of referenced sets, with their lengths
}

const (
	blockBits = 18 // 256 KiB
	blockSize = 1 << blockBits
	blockMask = blockSize - 1
	maxBlocks = 1 << (32 - blockBits)
)

func newSets() sets { return sets{seed: maphash.MakeSeed()} }

func (s *sets) hash(attrs []byte) uint32 { return uint32(maphash.Bytes(s.seed, attrs) >> 32) }

// intern returns the number of an attribute set and adds a reference.
func (s *sets) intern(attrs []byte) (AttrID, error) {
	if s.meta.n == 0 {
		s.meta.push(set{})
	}
	hash := s.hash(attrs)
	if n := s.index.find(hash, func(n uint32) bool { return bytes.Equal(s.stored(s.meta.at(n).at), attrs) }); n != 0 {
		s.meta.at(n).refs++
		return AttrID(n), nil
	}
	if s.free == 0 && s.meta.n == 1<<32-1 {
		return 0, ErrFull
	}
	at, err := s.store(attrs)
	if err != nil {
		return 0, err
	}
	id := s.free
	if id != 0 {
		s.free = AttrID(s.meta.at(uint32(id)).at)
		s.unused--
		*s.meta.at(uint32(id)) = set{at, 1}
	} else {
		id = AttrID(s.meta.push(set{at, 1}))
	}
	s.index.add(hash, uint32(id))
	if s.fresh != nil {
		s.fresh(id)
	}
	return id, nil
}

// release removes a reference. The last one frees the set.
func (s *sets) release(id AttrID) {
	m := s.meta.at(uint32(id))
	if m.refs--; m.refs > 0 {
		return
	}
	attrs := s.stored(m.at)
	s.index.remove(s.hash(attrs), uint32(id))
	number := m.at >> blockBits
	b := &s.blocks[number]
	b.live -= storedSize(attrs)
	*m = set{at: uint32(s.free)}
	s.free = id
	s.unused++
	if number != s.open {
		s.tidy(number)
	}
}

// tidy evacuates a block if its holes are more than half of it. The rest fits in one block.
func (s *sets) tidy(number uint32) {
	if b := &s.blocks[number]; 2*b.live < len(b.bytes) {
		s.evacuate(number)
	}
}

func storedSize(attrs []byte) int {
	var head [binary.MaxVarintLen32]byte
	return binary.PutUvarint(head[:], uint64(len(attrs))) + len(attrs)
}

// stored returns the bytes at a position.
func (s *sets) stored(at uint32) []byte {
	b := s.blocks[at>>blockBits].bytes[at&blockMask:]
	n, head := uint64(b[0]), 1
	if n >= 0x80 {
		n, head = binary.Uvarint(b)
	}
	return b[head : head+int(n) : head+int(n)]
}

// store appends an attribute set to the arena and returns its position.
func (s *sets) store(attrs []byte) (uint32, error) {
	size := storedSize(attrs)
	if len(s.blocks) == 0 || len(s.blocks[s.open].bytes)+size > blockSize {
		full := s.open
		if err := s.openBlock(); err != nil {
			return 0, err
		}
		if full != s.open {
			s.tidy(full)
		}
	}
	b := &s.blocks[s.open]
	at := s.open<<blockBits | uint32(len(b.bytes))
	b.bytes = binary.AppendUvarint(b.bytes, uint64(len(attrs)))
	b.bytes = append(b.bytes, attrs...)
	b.live += size
	return at, nil
}

func (s *sets) openBlock() error {
	if n := len(s.spare); n > 0 {
		s.open, s.spare = s.spare[n-1], s.spare[:n-1]
	} else if len(s.blocks) == maxBlocks {
		return ErrFull
	} else {
		s.open = uint32(len(s.blocks))
		s.blocks = append(s.blocks, block{})
	}
	s.blocks[s.open] = block{bytes: make([]byte, 0, blockSize)}
	return nil
}

// evacuate moves the referenced sets of a block and drops it. If the arena has no space left, the
// block stays.
func (s *sets) evacuate(number uint32) {
	from := s.blocks[number].bytes
	for offset := 0; offset < len(from); {
		at := number<<blockBits | uint32(offset)
		attrs := s.stored(at)
		offset += storedSize(attrs)
		n := s.index.find(s.hash(attrs), func(n uint32) bool { return s.meta.at(n).at == at })
		if n == 0 {
			continue
		}
		to, err := s.store(attrs)
		if err != nil {
			return
		}
		s.blocks[number].live -= storedSize(attrs)
		s.meta.at(n).at = to
	}
	s.blocks[number] = block{}
	s.spare = append(s.spare, number)
}

func (s *sets) get(id AttrID) []byte {
	if id == 0 || uint32(id) >= s.meta.n || s.meta.at(uint32(id)).refs == 0 {
		return nil
	}
	return s.stored(s.meta.at(uint32(id)).at)
}

func (s *sets) maxID() AttrID { return AttrID(max(s.meta.n, 1) - 1) }

func (s *sets) count() int { return s.index.n }

func (s *sets) bytes() int64 {
	sum := s.index.bytes() + s.meta.bytes()
	for i := range s.blocks {
		sum += int64(cap(s.blocks[i].bytes)) + 32
	}
	return sum
}
