// SPDX-License-Identifier: Apache-2.0

package emulator

import (
	"weir/kernel/xsk"
	"weir/lab/link/model"
)

// store maps frames to buffers. Frames of MTU size fit into one buffer; jumbo frames are chains,
// linked by next.
type store struct {
	umem *xsk.Umem
	next []xsk.Desc
}

func newStore(umem *xsk.Umem, jumbo bool) store {
	s := store{umem: umem}
	if jumbo {
		s.next = make([]xsk.Desc, umem.Count())
	}
	return s
}

func (s *store) slot(d xsk.Desc) int { return int(d.Addr) / s.umem.BufferSize() }

func continues(d xsk.Desc) bool { return d.Flags&xsk.Continues != 0 }

// follow returns the part behind d, which must continue.
func (s *store) follow(d xsk.Desc) xsk.Desc { return s.next[s.slot(d)] }

// chain puts part behind d.
func (s *store) chain(d, part xsk.Desc) { s.next[s.slot(d)] = part }

// length counts the bytes and buffers of a frame.
func (s *store) length(d xsk.Desc) (octets, parts int) {
	octets, parts = int(d.Len), 1
	for continues(d) {
		d = s.follow(d)
		octets += int(d.Len)
		parts++
	}
	return octets, parts
}

// release gives a frame's buffers back.
func (s *store) release(d xsk.Desc) {
	for {
		more := continues(d)
		if !more {
			s.umem.Give(d.Addr)
			return
		}
		behind := s.follow(d)
		s.umem.Give(d.Addr)
		d = behind
	}
}

// copy makes a second frame like d; false means that there are not enough buffers.
func (s *store) copy(d xsk.Desc) (first xsk.Desc, ok bool) {
	var last xsk.Desc
	for i := 0; ; i++ {
		addr, ok := s.umem.Take()
		if !ok {
			if i > 0 {
				s.chain(last, xsk.Desc{})
				s.releaseParts(first, i)
			}
			return xsk.Desc{}, false
		}
		// The same offset in the new buffer, so that the data fits.
		part := xsk.Desc{Addr: addr + d.Addr%uint64(s.umem.BufferSize()), Len: d.Len, Flags: d.Flags}
		copy(s.umem.Bytes(part), s.umem.Bytes(d))
		if i == 0 {
			first = part
		} else {
			s.chain(last, part)
		}
		if !continues(d) {
			return first, true
		}
		last, d = part, s.follow(d)
	}
}

// releaseParts gives back the first n parts of an unfinished chain.
func (s *store) releaseParts(d xsk.Desc, n int) {
	for range n {
		behind := s.follow(d)
		s.umem.Give(d.Addr)
		d = behind
	}
}

// damage inverts one bit, counted as in model.Decision.
func (s *store) damage(d xsk.Desc, bit int) {
	first := int(d.Len)
	if octet := 14 + bit/8; octet < first {
		model.Damage(s.umem.Bytes(d), bit)
		return
	}
	octet := 14 + bit/8
	for octet >= int(d.Len) {
		octet -= int(d.Len)
		d = s.follow(d)
	}
	s.umem.Bytes(d)[octet] ^= 0x80 >> (bit % 8)
}
