// SPDX-License-Identifier: Apache-2.0

package xdp

import (
	"errors"
	"math/bits"
	"net/netip"
	"sync/atomic"

	"weir/modules/offload/plan"
)

const (
	child  = uint32(fastFastEntryFAST_CHILD)
	fanout = int(fastFastBoundsFAST_FANOUT)
	root   = int(fastFastBoundsFAST_ROOT)
	octet  = 8
	// rootBits is the prefix length of the entries of a family's first blocks.
	rootBits = 16
)

// errFull reports that the tree needs more blocks.
var errFull = errors.New("the tree is full")

// families holds the prefixes of all addresses.
var families = []netip.Prefix{netip.PrefixFrom(netip.IPv4Unspecified(), 0), netip.PrefixFrom(netip.IPv6Unspecified(), 0)}

// tree holds the entries of all blocks, in this process' memory or shared with the program. A
// removed block is reused only when no program can read it.
type tree struct {
	words   []uint32
	used    int      // high-water mark of blocks
	free    []uint32 // blocks
	retired []uint32 // free after quiesce
	grow    bool     // words is private memory and may grow
}

func newTree() *tree {
	return &tree{words: make([]uint32, 2*root*fanout), used: 2 * root, grow: true}
}

func (t *tree) block(n uint32) []uint32 { return t.words[int(n)*fanout : (int(n)+1)*fanout] }

// take returns an unused block.
func (t *tree) take() (uint32, error) {
	if last := len(t.free) - 1; last >= 0 {
		n := t.free[last]
		t.free = t.free[:last]
		return n, nil
	}
	if (t.used+1)*fanout > len(t.words) {
		if !t.grow {
			return 0, errFull
		}
		t.words = append(t.words, make([]uint32, max(len(t.words)/2, fanout))...)
	}
	t.used++
	return uint32(t.used - 1), nil
}

// retire removes a block and those below it.
func (t *tree) retire(n uint32) {
	for _, e := range t.block(n) {
		if e&child != 0 {
			t.retire(e &^ child)
		}
	}
	t.retired = append(t.retired, n)
}

// settle frees retired blocks: no program reads them any more.
func (t *tree) settle() {
	t.free, t.retired = append(t.free, t.retired...), t.retired[:0]
}

// set stores an entry atomically.
func (t *tree) set(at int, value uint32) {
	if t.words[at] != value {
		atomic.StoreUint32(&t.words[at], value)
	}
}

// first returns the position of the first entry of a prefix of rootBits or less.
func first(to netip.Prefix) int {
	base, b := 0, to.Addr().AsSlice()
	if to.Addr().Is6() {
		base = root
	}
	return (base+int(b[0]))*fanout + int(b[1])
}

// update writes the planner's decisions below a prefix.
func (t *tree) update(p *plan.Planner, to netip.Prefix) error {
	to = to.Masked()
	if length := to.Bits(); length < rootBits {
		return t.span(first(to), rootBits-length, p.View(to), to)
	}
	top, err := to.Addr().Prefix(rootBits)
	if err != nil {
		return err
	}
	return t.entry(first(top), p.View(top), to)
}

// span writes 2^levels entries of one block, or of the root, from a position on. Only entries below
// the prefix change.
func (t *tree) span(at, levels int, v plan.View, to netip.Prefix) error {
	if levels == 0 {
		return t.entry(at, v, to)
	}
	for bit := range 2 {
		if depth := v.Depth(); depth < to.Bits() && bitOf(to.Addr(), depth) != bit {
			continue
		}
		if err := t.span(at+bit<<(levels-1), levels-1, v.Child(bit), to); err != nil {
			return err
		}
	}
	return nil
}

func bitOf(a netip.Addr, i int) int {
	if a.Is4() {
		b := a.As4()
		return int(b[i>>3]>>(7-i&7)) & 1
	}
	b := a.As16()
	return int(b[i>>3]>>(7-i&7)) & 1
}

// entry writes one entry and the blocks below it.
func (t *tree) entry(at int, v plan.View, to netip.Prefix) error {
	old := t.words[at]
	switch {
	case v.Leaf():
		t.set(at, uint32(v.Decision()))
		if old&child != 0 {
			t.retire(old &^ child)
		}
		return nil
	case old&child == 0:
		value, err := t.build(v)
		if err == nil {
			t.set(at, value)
		}
		return err
	}
	block := old &^ child
	if err := t.span(int(block)*fanout, octet, v, to); err != nil {
		return err
	}
	if value, uniform := same(t.block(block)); uniform {
		t.set(at, value)
		t.retire(block)
	}
	return nil
}

// build returns the entry of a view, with new blocks that the program does not reach yet.
func (t *tree) build(v plan.View) (uint32, error) {
	if v.Leaf() {
		return uint32(v.Decision()), nil
	}
	var entries [fanout]uint32
	if err := t.spread(entries[:], v); err != nil {
		return 0, err
	}
	if value, uniform := same(entries[:]); uniform {
		return value, nil
	}
	n, err := t.take()
	if err != nil {
		return 0, err
	}
	for i, e := range entries {
		t.set(int(n)*fanout+i, e)
	}
	return n | child, nil
}

func (t *tree) spread(entries []uint32, v plan.View) (err error) {
	switch {
	case len(entries) == 1:
		entries[0], err = t.build(v)
	case v.Leaf():
		value := uint32(v.Decision())
		for i := range entries {
			entries[i] = value
		}
	default:
		half := len(entries) / 2
		if err := t.spread(entries[:half], v.Child(0)); err != nil {
			return err
		}
		return t.spread(entries[half:], v.Child(1))
	}
	return err
}

// same reports whether all entries are one decision.
func same(entries []uint32) (value uint32, uniform bool) {
	for _, e := range entries {
		if e != entries[0] || e&child != 0 {
			return 0, false
		}
	}
	return entries[0], true
}

// lookup is the program's lookup.
func (t *tree) lookup(a netip.Addr) plan.Decision {
	b := a.AsSlice()
	at := int(b[0])
	if a.Is6() {
		at += root
	}
	for _, o := range b[1:] {
		e := atomic.LoadUint32(&t.words[at*fanout+int(o)])
		if e&child == 0 {
			return plan.Decision(e)
		}
		at = int(e &^ child)
	}
	return plan.CPU // unreachable: entries of the last byte have no child
}

// blocksFor returns the size of a shared tree for a number of used blocks.
func blocksFor(used int) int {
	module := used + used/4 + 1024
	return max(module, 1<<bits.Len(uint(2*root)))
}
