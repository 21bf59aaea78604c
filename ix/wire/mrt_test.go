// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"io"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
)

// record builds an MRT record.
func record(kind, subtype uint16, body ...byte) []byte {
	b := binary.BigEndian.AppendUint32(nil, 1400824800)
	b = binary.BigEndian.AppendUint16(b, kind)
	b = binary.BigEndian.AppendUint16(b, subtype)
	b = binary.BigEndian.AppendUint32(b, uint32(len(body)))
	return append(b, body...)
}

// peerTable builds a PEER_INDEX_TABLE with the peers 10.0.0.1 AS 64501 and 2001:db8::2 AS 65536.
func peerTable() []byte {
	six := netip.MustParseAddr("2001:db8::2").As16()
	return record(mrtTableDumpV2, ribPeers, slices.Concat(
		[]byte{10, 0, 0, 9, 0, 4}, []byte("view"), []byte{0, 2},
		[]byte{0, 10, 0, 0, 1, 10, 0, 0, 1, 0xfb, 0xf5},
		append(append([]byte{3, 10, 0, 0, 2}, six[:]...), 0, 1, 0, 0),
	)...)
}

// ribEntry builds an entry of a RIB record, with a path identifier if it is not 0.
func ribEntry(peer byte, id uint32, attrs []byte) []byte {
	b := []byte{0, peer, 0, 0, 0, 5}
	if id != 0 {
		b = binary.BigEndian.AppendUint32(b, id)
	}
	b = binary.BigEndian.AppendUint16(b, uint16(len(attrs)))
	return append(b, attrs...)
}

// rib builds a RIB record; prefix is the length and the bytes.
func rib(subtype uint16, prefix []byte, entries ...[]byte) []byte {
	body := slices.Concat([]byte{0, 0, 0, 1}, prefix, []byte{byte(len(entries) >> 8), byte(len(entries))}, slices.Concat(entries...))
	return record(mrtTableDumpV2, subtype, body...)
}

var somePath = slices.Concat(attr(0x40, AttrOrigin, 0), attr(0x40, AttrASPath, segment(ASSequence, 64501, 64510)...), attr(0x40, AttrNextHop, 10, 0, 0, 1))

func sampleTable() []byte {
	six := netip.MustParseAddr("2001:db8::2").As16()
	reach := attr(0x80, AttrMPReach, append([]byte{16}, six[:]...)...)
	full := attr(0x80, AttrMPReach, slices.Concat([]byte{0, 2, 1, 16}, six[:], []byte{0, 32, 0x20, 1, 0xd, 0xb8})...)
	return slices.Concat(peerTable(),
		rib(ribIPv4, []byte{23, 192, 0, 3}, ribEntry(0, 0, somePath), ribEntry(1, 0, somePath)),
		rib(3, []byte{8, 224}),
		rib(ribIPv6, []byte{32, 0x20, 1, 0xd, 0xb8}, ribEntry(1, 0, reach), ribEntry(1, 0, full)),
		rib(ribIPv4AddPath, []byte{0}, ribEntry(1, 7, somePath), ribEntry(1, 8, somePath)),
	)
}

var sampleRoutes = []string{
	"192.0.2.0/23 10.0.0.1 64501 0 10.0.0.1", "192.0.2.0/23 2001:db8::2 65536 0 10.0.0.1",
	"2001:db8::/32 2001:db8::2 65536 0 2001:db8::2", "2001:db8::/32 2001:db8::2 65536 0 2001:db8::2",
	"0.0.0.0/0 2001:db8::2 65536 7 10.0.0.1", "0.0.0.0/0 2001:db8::2 65536 8 10.0.0.1",
}

// routes reads all routes as text.
func routes(t *testing.T, r *Reader) (all []string, err error) {
	t.Helper()
	for route, err := range r.All {
		if err != nil {
			return all, err
		}
		all = append(all, routeText(r, route))
	}
	return all, nil
}

func routeText(r *Reader, route *Route) string {
	p := r.Peers()[route.Peer]
	text := strings.Join([]string{route.Prefix.String(), p.Addr.String(), number(p.AS), number(route.PathID)}, " ")
	if route.Withdrawn {
		return text + " withdrawn"
	}
	return text + " " + route.View.NextHop.String()
}

func number(n uint32) string { return strconv.FormatUint(uint64(n), 10) }

func TestReaderReadsEveryCompression(t *testing.T) {
	plain := sampleTable()
	var gz, zst bytes.Buffer
	zip := gzip.NewWriter(&gz)
	_, _ = zip.Write(plain)
	_ = zip.Close()
	pack, err := zstd.NewWriter(&zst)
	if err != nil {
		t.Fatal(err)
	}
	_, _ = pack.Write(plain)
	_ = pack.Close()
	for name, file := range map[string][]byte{"plain": plain, "gzip": gz.Bytes(), "zstd": zst.Bytes()} {
		r, err := NewReader(bytes.NewReader(file), Options{})
		if err != nil {
			t.Fatal(name, err)
		}
		got, err := routes(t, r)
		if err != nil || !slices.Equal(got, sampleRoutes) {
			t.Errorf("%s: %v, %q", name, err, got)
		}
		if n, fault := r.Malformed(); n != 0 || r.Records() != 5 || r.Skipped() != 1 {
			t.Errorf("%s: %d records, %d skipped, %d malformed: %v", name, r.Records(), r.Skipped(), n, fault)
		}
	}
}

func TestFaultsOfAFileNamePlaceAndRecords(t *testing.T) {
	table := peerTable()
	at := int64(len(table))
	for name, c := range map[string]struct {
		file    []byte
		offset  int64
		records int
		want    string
	}{
		"empty":             {nil, 0, 0, "empty"},
		"text":              {[]byte("version: 1\nexchange: {}"), 4, 0, "record type"},
		"zeros":             {make([]byte, 64), 4, 0, "record type 0"},
		"version 1":         {record(12, 1), 4, 0, "version 1"},
		"subtype":           {slices.Concat(table, record(13, 99)), at + 4, 1, "subtype 99"},
		"header":            {table[:7], 7, 0, "header of 12 bytes ends after 7: truncated file"},
		"body":              {slices.Concat(table, record(13, 2, 1, 2, 3)[:14]), at + 14, 1, "body of 3 bytes ends after 2: truncated"},
		"no body":           {slices.Concat(table, record(13, 2, 1, 2, 3)[:12]), at + 12, 1, "body of 3 bytes ends after 0: truncated"},
		"huge":              {slices.Concat(table, []byte{0, 0, 0, 0, 0, 13, 0, 2, 0xff, 0, 0, 0}), at + 8, 1, "exceeds"},
		"lies":              {slices.Concat(table, []byte{0, 0, 0, 0, 0, 13, 0, 2, 1, 0, 0, 0}), at + 12, 1, "ends after 0"},
		"prefix length":     {slices.Concat(table, rib(2, []byte{33, 1, 2, 3, 4, 5})), at + 16, 1, "prefix length of 33"},
		"prefix":            {slices.Concat(table, record(13, 2, 0, 0, 0, 1, 24, 1)), at + 17, 1, "exceeds the record"},
		"count":             {slices.Concat(table, record(13, 2, 0, 0, 0, 1, 0, 1)), at + 17, 1, "entry count"},
		"entry":             {slices.Concat(table, record(13, 2, 0, 0, 0, 1, 0, 0, 1, 7)), at + 19, 1, "too short for an entry"},
		"peer":              {slices.Concat(table, rib(2, []byte{0}, ribEntry(2, 0, nil))), at + 19, 1, "peer 2"},
		"attributes":        {slices.Concat(table, record(13, 2, 0, 0, 0, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 5, 1)), at + 25, 1, "attributes of 5 bytes exceed the remaining 1"},
		"rest":              {slices.Concat(table, rib(2, []byte{0}, ribEntry(0, 0, nil)[:8], []byte{1})[:12+7+8+1]), at + 19, 1, ""},
		"peers too short":   {record(13, 1, 1, 2, 3), 12, 0, "too short for its header"},
		"view name":         {record(13, 1, 1, 2, 3, 4, 0, 9, 0, 0), 18, 0, "view name"},
		"peer count":        {record(13, 1, 1, 2, 3, 4, 0, 1, 9, 0), 19, 0, "peer count"},
		"peers":             {record(13, 1, 1, 2, 3, 4, 0, 0, 0, 2, 0, 1, 1, 1, 1, 2, 2, 2, 2, 0, 1), 31, 0, "peer 2 of 2"},
		"gzip":              {[]byte{0x1f, 0x8b, 8, 0, 0}, 0, 0, "open as gzip"},
		"bzip2":             {[]byte("BZh9 nonsense"), 0, 0, "bzip2"},
		"zstd":              {[]byte{0x28, 0xb5, 0x2f, 0xfd, 0xff, 0xff}, 0, 0, "zstd"},
		"RIB without peers": {rib(2, []byte{0}, ribEntry(0, 0, nil)), 19, 0, "peer 0 is not in the table of 0"},
	} {
		if name == "rest" {
			c.file, c.offset, c.want = slices.Concat(table, record(13, 2, slices.Concat([]byte{0, 0, 0, 1, 0, 0, 1}, ribEntry(0, 0, nil), []byte{9})...)), at+27, "1 bytes follow the last entry"
		}
		r, err := NewReader(bytes.NewReader(c.file), Options{})
		if err == nil {
			_, err = routes(t, r)
		}
		var fault *Error
		if !errors.As(err, &fault) {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if fault.Offset != c.offset || fault.Records != c.records || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v; want %q at %d after %d", name, err, c.want, c.offset, c.records)
		}
		if r == nil {
			continue
		}
		if again := r.Next(&Route{}); again != err {
			t.Errorf("%s: the error changes to %v", name, again)
		}
		partial, _ := NewReader(bytes.NewReader(c.file), Options{Partial: true})
		if _, err := routes(t, partial); err != nil || partial.Fault() == nil || partial.Fault().Error() != fault.Error() {
			t.Errorf("%s: Partial returns %v and the fault %v", name, err, partial.Fault())
		}
	}
}

// A path with faulty attributes is left out; the rest of the file is read.
func TestMalformedPathsAreCounted(t *testing.T) {
	bad := slices.Concat(attr(0x40, AttrOrigin, 0), attr(0x40, AttrNextHop, 1, 2))
	table := peerTable()
	file := slices.Concat(table, rib(ribIPv4, []byte{0}, ribEntry(0, 0, bad), ribEntry(1, 0, somePath)))
	r, err := NewReader(bytes.NewReader(file), Options{})
	if err != nil {
		t.Fatal(err)
	}
	got, err := routes(t, r)
	if err != nil || len(got) != 1 {
		t.Fatalf("%q, %v", got, err)
	}
	n, first := r.Malformed()
	var fault *Error
	if n != 1 || !errors.As(first, &fault) || fault.Offset != int64(len(table)+12+7+8+7) || fault.Records != 1 {
		t.Errorf("%d: %v", n, first)
	}
}

func TestReaderAllocatesNothingPerRoute(t *testing.T) {
	entries := make([][]byte, 200)
	for i := range entries {
		entries[i] = ribEntry(byte(i%2), 0, somePath)
	}
	file := peerTable()
	for i := range 100 {
		file = append(file, rib(ribIPv4, []byte{16, 10, byte(i)}, entries...)...)
	}
	r, err := NewReader(bytes.NewReader(file), Options{})
	if err != nil {
		t.Fatal(err)
	}
	var route Route
	if err := r.Next(&route); err != nil {
		t.Fatal(err)
	}
	if allocs := testing.AllocsPerRun(15_000, func() {
		if err := r.Next(&route); err != nil {
			t.Fatal(err)
		}
	}); allocs != 0 {
		t.Errorf("%v allocations per route", allocs)
	}
	for err == nil {
		err = r.Next(&route)
	}
	if err != io.EOF {
		t.Error(err)
	}
}
