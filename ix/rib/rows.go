// SPDX-License-Identifier: Apache-2.0

package rib

import (
	"hash/maphash"
	"net/netip"
)

// key is a prefix: the masked address, then a byte of family and length. The bytes of an IPv4
// address are the first four; its last byte is the length plus isIPv4.
type key [17]byte

const (
	isIPv4 = 129 // lengths of IPv6 are 0 to 128
	unused = 255 // last byte of an unused row
)

func keyOf(p netip.Prefix) (k key, ok bool) {
	if !p.IsValid() {
		return k, false
	}
	p = p.Masked()
	if addr := p.Addr(); addr.Is4() {
		four := addr.As4()
		copy(k[:], four[:])
		k[16] = isIPv4 + byte(p.Bits())
	} else {
		sixteen := addr.As16()
		copy(k[:], sixteen[:])
		k[16] = byte(p.Bits())
	}
	return k, true
}

func (k *key) prefix() netip.Prefix {
	if k[16] >= isIPv4 {
		return netip.PrefixFrom(netip.AddrFrom4([4]byte(k[:4])), int(k[16]-isIPv4))
	}
	return netip.PrefixFrom(netip.AddrFrom16([16]byte(k[:16])), int(k[16]))
}

// rows maps prefixes to row numbers. Row 0 is unused, since an index holds no 0.
type rows struct {
	seed    maphash.Seed
	index   index
	keys    vector[key]
	paths   vector[uint32] // number of paths; of an unused row: the next unused one
	free    uint32         // head of the list of unused rows
	lengths [256]uint32    // rows by the last byte of their keys
}

func newRows() rows { return rows{seed: maphash.MakeSeed()} }

func (r *rows) hash(k *key) uint32 { return uint32(maphash.Bytes(r.seed, k[:]) >> 32) }

func (r *rows) find(k key) (uint32, bool) {
	row := r.index.find(r.hash(&k), func(row uint32) bool { return *r.keys.at(row) == k })
	return row, row != 0
}

// add returns the row of a prefix, which it adds if it is not there.
func (r *rows) add(k key) (row uint32, added bool, err error) {
	if row, ok := r.find(k); ok {
		return row, false, nil
	}
	if r.keys.n == 0 {
		r.keys.push(key{16: unused})
		r.paths.push(0)
	}
	switch {
	case r.free != 0:
		row = r.free
		r.free = *r.paths.at(row)
		*r.keys.at(row), *r.paths.at(row) = k, 0
	case r.keys.n == 1<<32-1:
		return 0, false, ErrFull
	default:
		row = r.keys.push(k)
		r.paths.push(0)
	}
	r.index.add(r.hash(&k), row)
	r.lengths[k[16]]++
	return row, true, nil
}

func (r *rows) addPath(row uint32) { *r.paths.at(row)++ }

func (r *rows) dropPath(row uint32) uint32 {
	left := r.paths.at(row)
	*left--
	return *left
}

func (r *rows) remove(row uint32) {
	k := r.keys.at(row)
	r.index.remove(r.hash(k), row)
	r.lengths[k[16]]--
	*k, *r.paths.at(row) = key{16: unused}, r.free
	r.free = row
}

func (r *rows) count() int { return r.index.n }

func (r *rows) bytes() int64 { return r.index.bytes() + r.keys.bytes() + r.paths.bytes() }
