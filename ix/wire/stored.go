// SPDX-License-Identifier: Apache-2.0

package wire

import "encoding/binary"

// asTrans stands for an AS number above 65,535 towards a speaker of two-byte numbers (RFC 6793).
const asTrans = 23456

// AppendAnnounced appends the attributes of the Announced routes to dst in stored form: without
// MP_REACH_NLRI and MP_UNREACH_NLRI, without attributes to ignore, and with AS numbers of four
// bytes merged from AS4_PATH. If u.Fault is set, it appends nothing.
func (u *Update) AppendAnnounced(dst []byte) Attrs { return u.appendStored(dst, false) }

// AppendReach appends the attributes of the Reach routes to dst in stored form: like
// AppendAnnounced, without NEXT_HOP and with a shortened MP_REACH_NLRI.
func (u *Update) AppendReach(dst []byte) Attrs { return u.appendStored(dst, true) }

func (u *Update) appendStored(dst []byte, reach bool) Attrs {
	if u.Fault != nil {
		return dst
	}
	var seen [4]uint64
	for offset := 0; offset < len(u.attrs); {
		attr, next, err := u.attrs.cut(offset)
		if err != nil {
			return dst
		}
		bit, word := uint64(1)<<(attr.Type%64), attr.Type/64
		if (seen[word]|u.discard[word])&bit == 0 {
			dst = u.appendAttr(dst, attr, u.attrs[offset:next], reach)
		}
		seen[word] |= bit
		offset = next
	}
	return dst
}

func (u *Update) appendAttr(dst []byte, attr Attr, raw []byte, reach bool) []byte {
	switch attr.Type {
	case AttrMPUnreach:
		return dst
	case AttrMPReach:
		if !reach {
			return dst
		}
		dst = append(dst, attr.Flags&^FlagExtended, byte(AttrMPReach), byte(len(u.hop)))
		return append(dst, u.hop...)
	case AttrNextHop:
		if reach {
			return dst
		}
	case AttrASPath:
		if !u.as4 {
			return u.appendASPath(dst, attr)
		}
	case AttrAggregator:
		if !u.as4 {
			return u.appendAggregator(dst, attr)
		}
	case AttrAS4Path, AttrAS4Aggregator:
		return dst
	}
	return append(dst, raw...)
}

// as4Value returns the value of AS4_PATH or AS4_AGGREGATOR, unless it is to be ignored.
func (u *Update) as4Value(t AttrType) []byte {
	if u.discard[t/64]>>(t%64)&1 != 0 {
		return nil
	}
	// An aggregator that knows AS numbers of two bytes only makes both outdated (RFC 6793, 4.2.3).
	if value, ok := u.attrs.Get(AttrAggregator); ok && len(value) == 6 && binary.BigEndian.Uint16(value) != asTrans {
		return nil
	}
	value, _ := u.attrs.Get(t)
	return value
}

func (u *Update) appendAggregator(dst []byte, attr Attr) []byte {
	dst = append(dst, attr.Flags&^FlagExtended, byte(AttrAggregator), 8)
	if four := u.as4Value(AttrAS4Aggregator); len(four) == 8 {
		return append(dst, four...)
	}
	return append(append(dst, 0, 0), attr.Value...)
}

// appendASPath appends an AS_PATH of two-byte numbers as one of four bytes, merged with AS4_PATH
// (RFC 6793, section 4.2.3): the AS4_PATH replaces as many AS numbers at the end.
func (u *Update) appendASPath(dst []byte, attr Attr) []byte {
	four := ASPath(u.as4Value(AttrAS4Path))
	keep := -1 // AS numbers of the AS_PATH to keep; all
	if n, n4 := pathLen2(attr.Value), four.Len(); len(four) > 0 && n4 <= n {
		keep = n - n4
	} else {
		four = nil
	}
	dst = append(dst, attr.Flags|FlagExtended, byte(AttrASPath), 0, 0)
	start := len(dst)
	for p := attr.Value; len(p) >= 2 && keep != 0; {
		kind, ases := p[0], p[2:2+2*int(p[1])]
		p = p[2+2*int(p[1]):]
		switch {
		case kind == ASSequence && keep > 0:
			ases = ases[:min(len(ases), 2*keep)]
			keep -= len(ases) / 2
		case kind == ASSet && keep > 0:
			keep--
		}
		dst = append(dst, kind, byte(len(ases)/2))
		for ; len(ases) > 0; ases = ases[2:] {
			dst = append(dst, 0, 0, ases[0], ases[1])
		}
	}
	for len(four) > 0 {
		kind, _, rest, ok := four.segment()
		if !ok {
			break
		}
		if kind == ASSequence || kind == ASSet {
			dst = append(dst, four[:len(four)-len(rest)]...)
		}
		four = rest
	}
	binary.BigEndian.PutUint16(dst[start-2:], uint16(len(dst)-start))
	return dst
}

// pathLen2 is [ASPath.Len] of a path of two-byte numbers.
func pathLen2(p []byte) (length int) {
	for len(p) >= 2 {
		switch p[0] {
		case ASSequence:
			length += int(p[1])
		case ASSet:
			length++
		}
		p = p[2+2*int(p[1]):]
	}
	return length
}
