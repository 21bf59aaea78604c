// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"encoding/binary"
	"errors"
	"net/netip"
	"slices"
	"strings"
	"testing"
)

// attr builds a path attribute with a short length.
func attr(flags byte, t AttrType, value ...byte) []byte {
	return append([]byte{flags, byte(t), byte(len(value))}, value...)
}

// segment builds a segment of an AS_PATH.
func segment(kind byte, ases ...uint32) []byte {
	b := []byte{kind, byte(len(ases))}
	for _, as := range ases {
		b = binary.BigEndian.AppendUint32(b, as)
	}
	return b
}

func TestViewDecodesEveryAttribute(t *testing.T) {
	raw := Attrs(slices.Concat(
		attr(0x40, AttrOrigin, 1),
		attr(0x40, AttrASPath, segment(ASSequence, 64500, 64500, 4200000000, 64502)...),
		attr(0x40, AttrNextHop, 192, 0, 2, 1),
		attr(0x80, AttrMED, 0, 0, 1, 0),
		attr(0x40, AttrLocalPref, 0, 0, 0, 200),
		attr(0xc0, AttrCommunities, 0xff, 0xff, 0, 0, 0, 1, 0, 2),
		attr(0xc0, AttrLargeCommunities, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 3),
		attr(0x40, AttrLocalPref, 0, 0, 0, 99), // the first counts
		[]byte{0xd0, 99, 0, 1, 7},              // an unknown attribute, extended length
	))
	v, err := raw.View()
	if err != nil {
		t.Fatal(err)
	}
	if v.Origin != OriginEGP || v.NextHop != netip.MustParseAddr("192.0.2.1") || !v.HasMED || v.MED != 256 || !v.HasLocalPref || v.LocalPref != 200 {
		t.Errorf("%+v", v)
	}
	if v.ASPath.Len() != 4 || v.ASPath.First() != 64500 || v.ASPath.Second() != 4200000000 || v.ASPath.Origin() != 64502 {
		t.Errorf("AS path %v", v.ASPath)
	}
	if !v.Communities.Has(GracefulShutdown) || v.Communities.Has(NoExport) || !v.Communities.Has(1<<16|2) {
		t.Errorf("communities %x", v.Communities)
	}
	if !v.LargeCommunities.Has(LargeCommunity{1, 2, 3}) || v.LargeCommunities.Has(LargeCommunity{1, 2, 4}) {
		t.Errorf("large communities %x", v.LargeCommunities)
	}
	if value, ok := raw.Get(99); !ok || len(value) != 1 || value[0] != 7 {
		t.Errorf("attribute 99: %x %v", value, ok)
	}
	if allocs := testing.AllocsPerRun(100, func() { _ = v.Parse(raw) }); allocs != 0 {
		t.Errorf("%v allocations", allocs)
	}
}

func TestViewPrefersTheNextHopOfMPReach(t *testing.T) {
	hop := netip.MustParseAddr("2001:db8::1").As16()
	for _, raw := range [][]byte{
		attr(0x80, AttrMPReach, append([]byte{16}, hop[:]...)...),
		attr(0x80, AttrMPReach, append(append([]byte{32}, hop[:]...), make([]byte, 16)...)...),
		slices.Concat(attr(0x80, AttrMPReach, append([]byte{16}, hop[:]...)...), attr(0x40, AttrNextHop, 192, 0, 2, 1)),
	} {
		v, err := Attrs(raw).View()
		if err != nil || v.NextHop != netip.AddrFrom16(hop) {
			t.Errorf("%x: %v, %v", raw, v.NextHop, err)
		}
	}
}

func TestASPathCounts(t *testing.T) {
	for _, c := range []struct {
		path                  []byte
		length                int
		first, second, origin uint32
		loop, set             bool
		text                  string
	}{
		{nil, 0, 0, 0, 0, false, false, ""},
		{segment(ASSequence, 1), 1, 1, 0, 1, false, false, "1"},
		{segment(ASSequence, 1, 1, 1), 3, 1, 0, 1, false, false, "1 1 1"},
		{segment(ASSequence, 1, 2, 1), 3, 1, 2, 1, true, false, "1 2 1"},
		{segment(ASSequence, 1, 2, 2, 3, 3), 5, 1, 2, 3, false, false, "1 2 2 3 3"},
		{segment(ASSequence, 1, 2, 3, 2), 4, 1, 2, 2, true, false, "1 2 3 2"},
		{slices.Concat(segment(ASSequence, 1, 2), segment(ASSequence, 2, 3, 1)), 5, 1, 2, 1, true, false, "1 2 2 3 1"},
		{slices.Concat(segment(ASSequence, 1), segment(ASSet, 2, 3, 4)), 2, 1, 0, 0, false, true, "1 {2,3,4}"},
		{slices.Concat(segment(ASSet, 2, 3), segment(ASSequence, 1)), 2, 0, 0, 1, false, true, "{2,3} 1"},
		{slices.Concat(segment(ASConfedSequence, 9, 8), segment(ASSequence, 1, 2)), 2, 0, 0, 2, false, false, "(9 8) 1 2"},
		{slices.Concat(segment(ASConfedSet, 9, 8), segment(ASSequence, 1, 2)), 2, 0, 0, 2, false, true, "[9,8] 1 2"},
	} {
		p := ASPath(c.path)
		if at, reason := checkASPath(p, 4); reason != "" {
			t.Errorf("%v: %s at %d", p, reason, at)
		}
		if p.Len() != c.length || p.First() != c.first || p.Second() != c.second || p.Origin() != c.origin || p.HasLoop() != c.loop || p.HasSet() != c.set || p.String() != c.text {
			t.Errorf("%q: length %d, first %d, second %d, origin %d, loop %v, set %v, %q", c.text, p.Len(), p.First(), p.Second(), p.Origin(), p.HasLoop(), p.HasSet(), p)
		}
		count := 0
		for as := range p.All {
			if !p.Contains(as) {
				t.Errorf("%v does not contain %d", p, as)
			}
			count++
		}
		if p.Contains(77) {
			t.Errorf("%v contains 77", p)
		}
	}
}

func TestFaultsOfAttributesNamePlaceAndReason(t *testing.T) {
	for _, c := range []struct {
		raw    []byte
		offset int
		want   string
	}{
		{[]byte{0x40}, 0, "1 bytes are too short for an attribute"},
		{[]byte{0x50, 2, 0}, 0, "AS_PATH: 3 bytes are too short for an extended length"},
		{append(attr(0x40, AttrOrigin, 0), 0x40, 3, 4, 1), 4, "NEXT_HOP: a length of 4 bytes exceeds the remaining 1"},
		{attr(0x40, AttrOrigin, 3), 3, "ORIGIN has one byte of 0 to 2"},
		{attr(0x40, AttrNextHop, 1, 2, 3), 3, "NEXT_HOP: 3 bytes instead of 4"},
		{attr(0x80, AttrMED), 3, "0 bytes instead of 4"},
		{attr(0x40, AttrLocalPref, 1), 3, "1 bytes instead of 4"},
		{attr(0xc0, AttrCommunities, 1, 2, 3), 3, "no multiple of 4"},
		{attr(0xc0, AttrLargeCommunities, 1, 2, 3, 4), 3, "no multiple of 12"},
		{attr(0x80, AttrMPReach, 4, 1, 2, 3), 3, "4, 16 or 32 bytes"},
		{attr(0x40, AttrASPath, 2), 3, "1 byte is too short"},
		{attr(0x40, AttrASPath, append(segment(ASSequence, 1), 5, 1, 0, 0, 0, 0)...), 9, "segment type 5 is unknown"},
		{attr(0x40, AttrASPath, 2, 0), 3, "a segment is empty"},
		{attr(0x40, AttrASPath, 2, 2, 0, 0, 0, 1), 3, "a segment of 2 AS numbers exceeds the remaining 4 bytes"},
	} {
		_, err := Attrs(c.raw).View()
		var fault *AttrError
		if !errors.As(err, &fault) || fault.Offset != c.offset || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%x: %v at %d, want %q at %d", c.raw, err, fault.Offset, c.want, c.offset)
		}
	}
}
