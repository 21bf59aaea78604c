// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"testing"
)

// bgp4mp builds a BGP4MP record from 10.0.0.1 (AS 64501) or, with as4, 2001:db8::2 (AS 65536).
func bgp4mp(kind, subtype uint16, as4 bool, message []byte) []byte {
	var body []byte
	if kind == mrtBGP4MPET {
		body = []byte{0, 0, 0, 9}
	}
	if as4 {
		body = append(body, 0, 1, 0, 0, 0, 0, 0xfd, 0xe8, 0, 0, 0, 2)
		body = slices.Concat(body, sixAddr("2001:db8::2"), sixAddr("2001:db8::9"))
	} else {
		body = append(body, 0xfb, 0xf5, 0xfd, 0xe8, 0, 0, 0, 1, 10, 0, 0, 1, 10, 0, 0, 9)
	}
	return record(kind, subtype, append(body, message...)...)
}

// message builds a BGP message.
func message(kind byte, body []byte) []byte {
	size := HeaderSize + len(body)
	return slices.Concat(slices.Repeat([]byte{0xff}, 16), []byte{byte(size >> 8), byte(size), kind}, body)
}

func TestReaderReadsMessages(t *testing.T) {
	short := slices.Concat(originIGP, attr(0x40, AttrASPath, shortSegment(ASSequence, 64501)...), someHop)
	bad := update(ten, slices.Concat(originIGP, somePath4), ten)
	file := slices.Concat(
		bgp4mp(16, 0, false, []byte{0, 3, 0, 4}),
		bgp4mp(16, 1, false, message(TypeKeepalive, nil)),
		bgp4mp(16, 1, false, message(TypeUpdate, update(ten, short, []byte{16, 10, 1}))),
		bgp4mp(17, 4, true, message(TypeUpdate, updates()["both"])),
		bgp4mp(16, 9, true, message(TypeUpdate, update(nil, slices.Concat(originIGP, somePath4, someHop), append([]byte{0, 0, 0, 5}, ten...)))),
		bgp4mp(16, 4, true, message(TypeUpdate, bad)),
		bgp4mp(16, 4, true, message(TypeUpdate, update(nil, nil, []byte{33}))),
		bgp4mp(16, 4, true, message(TypeUpdate, updates()["End-of-RIB"])),
	)
	r, err := NewReader(bytes.NewReader(file), Options{})
	if err != nil {
		t.Fatal(err)
	}
	got, err := routes(t, r)
	want := []string{
		"10.0.0.0/8 10.0.0.1 64501 0 withdrawn", "10.1.0.0/16 10.0.0.1 64501 0 10.0.0.1",
		"172.16.0.0/16 2001:db8::2 65536 0 withdrawn", "2001:db8::/32 2001:db8::2 65536 0 withdrawn", "10.0.0.0/8 2001:db8::2 65536 0 10.0.0.1",
		"2001:db8::/32 2001:db8::2 65536 0 2001:db8::2", "2001:db8::7/128 2001:db8::2 65536 0 2001:db8::2",
		"10.0.0.0/8 2001:db8::2 65536 5 10.0.0.1",
		"10.0.0.0/8 2001:db8::2 65536 0 withdrawn", "10.0.0.0/8 2001:db8::2 65536 0 withdrawn",
	}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("%v\nhave %q\nwant %q", err, got, want)
	}
	if n, first := r.Malformed(); n != 2 || r.Skipped() != 2 || r.Records() != 8 || first == nil || !strings.Contains(first.Error(), "NEXT_HOP: the attribute is missing (after 5") {
		t.Errorf("%d records, %d skipped, %d malformed: %v", r.Records(), r.Skipped(), n, first)
	}
}

func TestFaultsOfMessagesNameTheirPlace(t *testing.T) {
	whole := message(TypeUpdate, updates()["announcement"])
	for name, c := range map[string]struct {
		file   []byte
		offset int64
		want   string
	}{
		"microseconds": {record(17, 4, 1, 2), 12, "microseconds"},
		"head":         {record(16, 1, 1, 2), 12, "too short for its header"},
		"family":       {record(16, 1, 0, 1, 0, 2, 0, 0, 0, 3), 18, "address family 3"},
		"addresses":    {record(16, 1, 0, 1, 0, 2, 0, 0, 0, 1, 10), 20, "addresses"},
		"header":       {bgp4mp(16, 1, false, whole[:18]), 28, "18 bytes are too short"},
		"marker":       {bgp4mp(16, 1, false, append([]byte{1}, whole[1:]...)), 28, "marker"},
		"size":         {bgp4mp(16, 1, false, whole[:len(whole)-1]), 44, "a BGP message of"},
		"subtype":      {record(16, 12), 4, "BGP4MP subtype 12"},
	} {
		r, err := NewReader(bytes.NewReader(c.file), Options{})
		if err != nil {
			t.Fatal(err)
		}
		_, err = routes(t, r)
		var fault *Error
		if !errors.As(err, &fault) || fault.Offset != c.offset || fault.Records != 0 || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q at %d", name, err, c.want, c.offset)
		}
	}
}
