// SPDX-License-Identifier: Apache-2.0

package rib

import (
	"bytes"
	"net/netip"
	"slices"
	"sync"
)

// order is the rows in the order of prefixes, made when it is needed.
type order struct {
	mu    sync.Mutex // guards rows and valid among readers
	rows  []uint32
	valid bool
}

func (o *order) invalidate() { o.valid = false }

func (o *order) bytes() int64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	return int64(cap(o.rows)) * 4
}

// compareKeys orders IPv4 before IPv6, then by address, then shorter prefixes first.
func compareKeys(a, b *key) int {
	if four := a[16] >= isIPv4; four != (b[16] >= isIPv4) {
		if four {
			return -1
		}
		return 1
	}
	return bytes.Compare(a[:], b[:])
}

// sorted returns the rows in order. The caller must not change them.
func (t *Table) sorted() []uint32 {
	o := &t.order
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.valid {
		return o.rows
	}
	rows := slices.Grow(o.rows[:0:0], t.rows.count())
	for row := uint32(1); row < t.rows.keys.n; row++ {
		if t.rows.keys.at(row)[16] != unused {
			rows = append(rows, row)
		}
	}
	slices.SortFunc(rows, func(a, b uint32) int { return compareKeys(t.rows.keys.at(a), t.rows.keys.at(b)) })
	o.rows, o.valid = rows, true
	return rows
}

// All iterates over the prefixes with their paths: IPv4 before IPv6, by address, shorter prefixes
// first. The slice is overwritten by the next row. The table must not change meanwhile.
func (t *Table) All(yield func(netip.Prefix, []Path) bool) {
	var paths []Path
	for _, row := range t.sorted() {
		paths = t.appendPaths(paths[:0], row)
		if !yield(t.rows.keys.at(row).prefix(), paths) {
			return
		}
	}
}

// Lookup returns the longest prefix in the table that contains an address.
func (t *Table) Lookup(addr netip.Addr) (netip.Prefix, bool) {
	if !addr.IsValid() {
		return netip.Prefix{}, false
	}
	return t.within(addr.WithZone(""), addr.BitLen())
}

// Covering returns the longest prefix in the table that contains p and is shorter.
func (t *Table) Covering(p netip.Prefix) (netip.Prefix, bool) {
	if !p.IsValid() || p.Bits() == 0 {
		return netip.Prefix{}, false
	}
	return t.within(p.Addr(), p.Bits()-1)
}

// within returns the longest prefix with at most bits bits that contains an address.
func (t *Table) within(addr netip.Addr, bits int) (netip.Prefix, bool) {
	base := 0
	if addr.Is4() {
		base = isIPv4
	}
	for ; bits >= 0; bits-- {
		if t.rows.lengths[base+bits] == 0 {
			continue
		}
		p := netip.PrefixFrom(addr, bits).Masked()
		if _, ok := t.find(p); ok {
			return p, true
		}
	}
	return netip.Prefix{}, false
}

// Rows returns an upper bound of the row numbers in use. A row is a prefix; its number stays the
// same while the prefix has a path.
func (t *Table) Rows() uint32 { return t.rows.keys.n }

// Row returns the prefix of a row and appends its paths to dst. ok is false for an unused row.
func (t *Table) Row(row uint32, dst []Path) (prefix netip.Prefix, paths []Path, ok bool) {
	if row == 0 || row >= t.rows.keys.n || t.rows.keys.at(row)[16] == unused {
		return prefix, dst, false
	}
	return t.rows.keys.at(row).prefix(), t.appendPaths(dst, row), true
}

// RowOf returns the row of a prefix.
func (t *Table) RowOf(p netip.Prefix) (row uint32, ok bool) { return t.find(p) }
