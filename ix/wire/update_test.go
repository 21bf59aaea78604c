// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"net/netip"
	"slices"
	"strings"
	"testing"
)

// update builds the body of an UPDATE.
func update(withdrawn, attrs, announced []byte) []byte {
	b := binary.BigEndian.AppendUint16(nil, uint16(len(withdrawn)))
	b = append(b, withdrawn...)
	b = binary.BigEndian.AppendUint16(b, uint16(len(attrs)))
	return slices.Concat(b, attrs, announced)
}

// shortSegment builds a segment of an AS_PATH with AS numbers of two bytes.
func shortSegment(kind byte, ases ...uint16) []byte {
	b := []byte{kind, byte(len(ases))}
	for _, as := range ases {
		b = binary.BigEndian.AppendUint16(b, as)
	}
	return b
}

var (
	originIGP = attr(0x40, AttrOrigin, 0)
	somePath4 = attr(0x40, AttrASPath, segment(ASSequence, 64501, 64510)...)
	someHop   = attr(0x40, AttrNextHop, 10, 0, 0, 1)
	sixHop    = append([]byte{0, 2, 1, 16}, slices.Concat(sixAddr("2001:db8::2"), []byte{0})...)
	sixPrefix = []byte{32, 0x20, 1, 0xd, 0xb8}
	ten       = []byte{8, 10}
)

func sixAddr(s string) []byte { a := netip.MustParseAddr(s).As16(); return a[:] }

// updates are sound UPDATEs.
func updates() map[string][]byte {
	reach := attr(0x80, AttrMPReach, slices.Concat(sixHop, sixPrefix, []byte{128}, sixAddr("2001:db8::7"))...)
	unreach := attr(0x80, AttrMPUnreach, append([]byte{0, 2, 1}, sixPrefix...)...)
	optional := slices.Concat(attr(0x80, AttrMED, 0, 0, 0, 9), attr(0x40, AttrLocalPref, 0, 0, 0, 100), attr(0x40, AttrAtomicAggregate),
		attr(0xc0, AttrAggregator, 0, 0, 0xfb, 0xf5, 1, 2, 3, 4), attr(0xc0, AttrCommunities, 0xff, 0xff, 0, 0), attr(0x80, AttrOriginatorID, 1, 2, 3, 4),
		attr(0x80, AttrClusterList, 1, 2, 3, 4), attr(0xc0, AttrExtCommunities, 0, 2, 0, 1, 0, 0, 0, 1),
		attr(0xc0, AttrLargeCommunities, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 3), attr(0xc0, 99, 1, 2, 3))
	return map[string][]byte{
		"End-of-RIB":      update(nil, nil, nil),
		"End-of-RIB IPv6": update(nil, attr(0x80, AttrMPUnreach, 0, 2, 1), nil),
		"withdrawal":      update(slices.Concat(ten, []byte{0}), nil, nil),
		"announcement":    update(nil, slices.Concat(originIGP, somePath4, someHop), slices.Concat(ten, []byte{23, 192, 0, 3}, []byte{32, 1, 2, 3, 4})),
		"all attributes":  update(nil, slices.Concat(originIGP, somePath4, someHop, optional), ten),
		"IPv6":            update(nil, slices.Concat(reach, originIGP, somePath4, optional), nil),
		"both":            update([]byte{16, 172, 16}, slices.Concat(reach, unreach, originIGP, somePath4, someHop), ten),
		"IPv4 in MP":      update(nil, slices.Concat(attr(0x80, AttrMPReach, slices.Concat([]byte{0, 1, 1, 4, 10, 0, 0, 9, 0}, ten)...), originIGP, somePath4), nil),
		"IPv4 by IPv6":    update(nil, slices.Concat(attr(0x80, AttrMPReach, slices.Concat([]byte{0, 1, 1}, sixHop[3:], ten)...), originIGP, somePath4), nil),
		"sets":            update(nil, slices.Concat(originIGP, attr(0x40, AttrASPath, slices.Concat(segment(ASConfedSequence, 1), segment(ASSequence, 2, 3), segment(ASSet, 4, 5))...), someHop), ten),
	}
}

func TestUpdatesEqualTheOracle(t *testing.T) {
	for name, body := range updates() {
		have, ok, err := decode(body, Coding{AS4: true})
		if !ok {
			t.Errorf("%s is rejected: %v", name, err)
			continue
		}
		want, err := oracleDecode(body, Coding{AS4: true})
		if err != nil || !have.equal(want) {
			t.Errorf("%s: %v\nhave %v\nwant %v", name, err, have, want)
		}
	}
}

func TestEndOfRIBHasAFamily(t *testing.T) {
	for name, body := range updates() {
		u, err := ParseUpdate(body, Coding{AS4: true})
		if err != nil {
			t.Fatal(err)
		}
		family, ok := u.EndOfRIB()
		want, is := map[string]Family{"End-of-RIB": IPv4Unicast, "End-of-RIB IPv6": IPv6Unicast}[name]
		if ok != is || ok && family != want {
			t.Errorf("%s: %v, %v", name, family, ok)
		}
	}
}

// Faults are handled as RFC 7606 demands.
func TestFaultyUpdates(t *testing.T) {
	base := slices.Concat(originIGP, somePath4, someHop)
	mp := func(value ...byte) []byte {
		return update(nil, slices.Concat(attr(0x80, AttrMPReach, value...), originIGP, somePath4), nil)
	}
	for _, c := range []struct {
		name  string
		body  []byte
		ends  bool // else treat as withdrawn
		at    int
		cause string
	}{
		{"short", []byte{0, 0, 0}, true, 0, "too short"},
		{"withdrawn exceed", []byte{0, 9, 0, 0}, true, 0, "withdrawn routes of 9 bytes"},
		{"attributes exceed", []byte{0, 0, 0, 9}, true, 2, "path attributes of 9 bytes"},
		{"withdrawn prefix", update([]byte{33, 1, 2, 3, 4, 5}, nil, nil), true, 2, "prefix length of 33"},
		{"announced prefix", update(nil, base, []byte{24, 1}), true, 4 + len(base), "prefix of 24 bits"},
		{"MP twice", update(nil, slices.Concat(attr(0x80, AttrMPUnreach, 0, 2, 1), attr(0x80, AttrMPUnreach, 0, 2, 1)), nil), true, 10, "repeated"},
		{"MP short", mp(0, 2), true, 7, "too short"},
		{"MP hop", mp(0, 2, 1, 17, 1), true, 7, "next hop exceeds"},
		{"MP hop size", mp(0, 2, 1, 4, 1, 2, 3, 4, 0), true, 10, "next hop of 4 bytes does not fit IPv6"},
		{"MP prefix", mp(slices.Concat(sixHop, []byte{129, 1})...), true, 28, "prefix length of 129"},
		{"no ORIGIN", update(nil, slices.Concat(somePath4, someHop), ten), false, 20, "ORIGIN: the attribute is missing"},
		{"no AS_PATH", update(nil, slices.Concat(originIGP, someHop), ten), false, 11, "AS_PATH"},
		{"no NEXT_HOP", update(nil, slices.Concat(originIGP, somePath4), ten), false, 17, "NEXT_HOP"},
		{"attribute cut off", update(nil, append(slices.Clone(base), 0x80, 4, 4, 1), ten), false, len(base), "exceeds"},
		{"flags", update(nil, slices.Concat(base, attr(0x40, AttrMED, 0, 0, 0, 1)), ten), false, len(base) + 3, "flags"},
		{"well-known", update(nil, slices.Concat(base, attr(0x40, 99)), ten), false, len(base) + 3, "a well-known attribute is unknown"},
		{"MED", update(nil, slices.Concat(base, attr(0x80, AttrMED, 0, 0, 1)), ten), false, len(base) + 3, "3 bytes instead of 4"},
		{"communities", update(nil, slices.Concat(base, attr(0xc0, AttrCommunities)), ten), false, len(base) + 3, "multiple of 4"},
		{"extended communities", update(nil, slices.Concat(base, attr(0xc0, AttrExtCommunities, 1)), ten), false, len(base) + 3, "multiple of 8"},
		{"originator", update(nil, slices.Concat(base, attr(0x80, AttrOriginatorID, 1)), ten), false, len(base) + 3, "instead of 4"},
	} {
		u, err := ParseUpdate(c.body, Coding{AS4: true})
		var ended *MessageError
		if c.ends {
			if !errors.As(err, &ended) || ended.Offset != c.at || !strings.Contains(err.Error(), c.cause) || ended.Code != codeUpdate {
				t.Errorf("%s: %+v", c.name, err)
			}
			continue
		}
		if err != nil || u.Fault == nil || u.Fault.Offset != c.at || !strings.Contains(u.Fault.Error(), c.cause) {
			t.Errorf("%s: %v, %+v", c.name, err, u.Fault)
		}
		if len(u.AppendAnnounced(nil)) != 0 {
			t.Errorf("%s: a faulty UPDATE has attributes", c.name)
		}
	}
}

func TestRepeatedAndFaultyOptionalAttributesAreDiscarded(t *testing.T) {
	base := slices.Concat(originIGP, somePath4, someHop)
	extra := slices.Concat(attr(0x40, AttrOrigin, 2), attr(0xc0, AttrAggregator, 1), attr(0x40, AttrAtomicAggregate, 1), attr(0xc0, AttrAS4Path, 1))
	u, err := ParseUpdate(update(nil, slices.Concat(base, extra), ten), Coding{AS4: true})
	if err != nil || u.Fault != nil || u.Discarded != 4 {
		t.Fatalf("%v, %v, %d", err, u.Fault, u.Discarded)
	}
	if got := u.AppendAnnounced(nil); !slices.Equal(got, Attrs(base)) {
		t.Errorf("stored %x instead of %x", got, base)
	}
}

// RFC 6793, section 4.2.3.
func TestShortASNumbersAreMerged(t *testing.T) {
	aggregator := func(as uint16) []byte {
		return attr(0xc0, AttrAggregator, byte(as>>8), byte(as), 1, 2, 3, 4)
	}
	aggregator4 := attr(0xc0, AttrAS4Aggregator, 0, 1, 0, 2, 5, 6, 7, 8)
	for _, c := range []struct {
		name       string
		path, four []byte
		extra      []byte
		want       string
		aggregator string
	}{
		{"no AS4_PATH", shortSegment(ASSequence, 1, 2), nil, nil, "1 2", ""},
		{"replaced", shortSegment(ASSequence, 1, asTrans, 3), segment(ASSequence, 70000, 3), nil, "1 70000 3", ""},
		{"whole", shortSegment(ASSequence, asTrans, 3), segment(ASSequence, 70000, 3), nil, "70000 3", ""},
		{"longer", shortSegment(ASSequence, 1, 2), segment(ASSequence, 1, 2, 3), nil, "1 2", ""},
		{"set", slices.Concat(shortSegment(ASSequence, 1), shortSegment(ASSet, asTrans, 3)), segment(ASSet, 70000, 3), nil, "1 {70000,3}", ""},
		{"confederation", shortSegment(ASSequence, 1, asTrans), slices.Concat(segment(ASConfedSequence, 9), segment(ASSequence, 70000)), nil, "1 70000", ""},
		{"new aggregator", shortSegment(ASSequence, asTrans), segment(ASSequence, 70000), append(aggregator(asTrans), aggregator4...), "70000", "0001000205060708"},
		{"old aggregator", shortSegment(ASSequence, asTrans), segment(ASSequence, 70000), append(aggregator(7), aggregator4...), "23456", "0000000701020304"},
	} {
		attrs := slices.Concat(originIGP, attr(0x40, AttrASPath, c.path...), someHop, c.extra)
		if c.four != nil {
			attrs = append(attrs, attr(0xc0, AttrAS4Path, c.four...)...)
		}
		u, err := ParseUpdate(update(nil, attrs, ten), Coding{})
		if err != nil || u.Fault != nil {
			t.Errorf("%s: %v, %v", c.name, err, u.Fault)
			continue
		}
		stored := u.AppendAnnounced(nil)
		view, err := stored.View()
		if err != nil || view.ASPath.String() != c.want {
			t.Errorf("%s: %v, %v instead of %s", c.name, err, view.ASPath, c.want)
		}
		value, _ := stored.Get(AttrAggregator)
		if have := hex.EncodeToString(value); have != c.aggregator {
			t.Errorf("%s: aggregator %s instead of %s", c.name, have, c.aggregator)
		}
		if _, ok := stored.Get(AttrAS4Path); ok {
			t.Errorf("%s: AS4_PATH is left", c.name)
		}
	}
}

func TestUpdateAllocatesNothing(t *testing.T) {
	body := updates()["both"]
	var u Update
	stored := make([]byte, 0, 4096)
	if allocs := testing.AllocsPerRun(100, func() {
		if err := u.Parse(body, Coding{AS4: true}); err != nil {
			t.Fatal(err)
		}
		stored = u.AppendAnnounced(stored[:0])
		stored = u.AppendReach(stored)
		for {
			if _, _, ok := u.Reach.Next(); !ok {
				break
			}
		}
	}); allocs != 0 {
		t.Errorf("%v allocations", allocs)
	}
}

func TestMessageHeaders(t *testing.T) {
	header := func(kind byte, size int) []byte {
		return append(slices.Repeat([]byte{0xff}, 16), byte(size>>8), byte(size), kind)
	}
	for _, c := range []struct {
		header  []byte
		max     int
		subcode uint8 // 0: sound
	}{
		{header(TypeUpdate, 23), MaxMessage, 0}, {header(TypeUpdate, 4096), MaxMessage, 0}, {header(TypeUpdate, 4097), MaxMessage, headerBadLength},
		{header(TypeUpdate, 65535), MaxExtendedMessage, 0}, {header(TypeOpen, 4097), MaxExtendedMessage, headerBadLength},
		{header(TypeKeepalive, 19), MaxMessage, 0}, {header(TypeKeepalive, 20), MaxMessage, headerBadLength}, {header(TypeOpen, 28), MaxMessage, headerBadLength},
		{header(TypeNotification, 20), MaxMessage, headerBadLength}, {header(TypeRouteRefresh, 23), MaxMessage, 0},
		{header(0, 23), MaxMessage, headerBadType}, {header(6, 23), MaxMessage, headerBadType},
		{append(make([]byte, 16), 0, 23, 2), MaxMessage, headerNotSynchronized}, {header(1, 29)[:18], MaxMessage, headerBadLength},
	} {
		_, _, err := ParseHeader(c.header, c.max)
		var fault *MessageError
		if errors.As(err, &fault) != (c.subcode != 0) || c.subcode != 0 && fault.Subcode != c.subcode {
			t.Errorf("%x, at most %d: %v", c.header, c.max, err)
		}
	}
}
