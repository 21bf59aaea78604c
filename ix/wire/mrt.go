// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"net/netip"
)

// Types and subtypes of MRT records (RFC 6396; RFC 8050 for additional paths).
const (
	mrtTableDump   = 12
	mrtTableDumpV2 = 13
	mrtBGP4MP      = 16
	mrtBGP4MPET    = 17

	ribPeers        = 1
	ribIPv4         = 2
	ribIPv6         = 4
	ribIPv4AddPath  = 8
	ribIPv6AddPath  = 10
	lastRIBSubtype  = 12
	mrtHeaderLength = 12

	bgpState            = 0 // STATE_CHANGE
	bgpStateAS4         = 5
	lastMessageSubtype  = 11
	firstAddPathSubtype = 8
)

// maxRecord limits the memory of a record. A prefix with 65,535 paths of 500 bytes fits.
const maxRecord = 32 << 20

// Peer is a BGP neighbor of the collector.
type Peer struct {
	Addr netip.Addr
	ID   netip.Addr // BGP identifier; invalid if unknown
	AS   uint32
}

// Route is one path of an MRT file, or its withdrawal.
type Route struct {
	Prefix    netip.Prefix // masked
	Peer      int          // index in [Reader.Peers]
	PathID    uint32       // 0 without additional paths (RFC 7911)
	Withdrawn bool         // Attrs and View are then empty
	Time      uint32       // seconds since 1970: of origination in a table, else of the message
	Attrs     Attrs
	View      View // decoded Attrs
}

// Options of a [Reader]. The zero value is useful.
type Options struct {
	// Partial makes a fault the end of the file: Next returns io.EOF, and [Reader.Fault] the fault.
	Partial bool
}

// Reader reads the routes of an MRT file: tables (TABLE_DUMP_V2; RFC 6396, section 4.3) and UPDATEs
// (BGP4MP and BGP4MP_ET, section 4.4), with and without additional paths (RFC 8050), plain or
// compressed by gzip, bzip2 or zstd. Other address families and messages are skipped. A Reader is
// for one goroutine.
//
// A fault of the file (truncation, a length that exceeds the record, an unknown record type) ends
// it. A path with a fault in its attributes is counted ([Reader.Malformed]), since the length of
// the entry still delimits it and dumps of live routers contain such paths: a table's path is left
// out, an UPDATE's routes become withdrawals (RFC 7606). An UPDATE without readable routes is left
// out.
type Reader struct {
	source  *bufio.Reader
	partial bool
	packing string // compression

	peers   []Peer
	offset  int64 // of the next unread byte
	records int   // complete ones
	body    []byte
	rest    []byte // unread part of body
	entries int    // left in a RIB record
	addPath bool
	prefix  netip.Prefix
	scratch []byte

	message messages // routes left in a BGP4MP record

	skipped   int
	malformed int
	first     error // fault of the first malformed path
	err       error // sticky
	fault     error
}

// NewReader returns a reader of an MRT stream. It detects the compression by the first bytes. An
// empty stream is an error. Errors of the format are an [*Error].
func NewReader(stream io.Reader, options Options) (*Reader, error) {
	r := &Reader{partial: options.Partial}
	plain, packing, err := decompress(stream)
	if err != nil {
		return nil, &Error{Reason: "read", Err: err}
	}
	r.source, r.packing = bufio.NewReaderSize(plain, 256<<10), packing
	if _, err := r.source.Peek(1); err == io.EOF {
		return nil, &Error{Reason: "the file is empty"}
	}
	return r, nil
}

// Peers returns the neighbors so far; Route.Peer is an index. The caller must not change it.
func (r *Reader) Peers() []Peer { return r.peers }

// Records returns the number of complete records so far.
func (r *Reader) Records() int { return r.records }

// Skipped returns the number of records so far that hold no unicast route.
func (r *Reader) Skipped() int { return r.skipped }

// Malformed returns the number of table paths and UPDATEs so far with faults, and the first fault.
func (r *Reader) Malformed() (int, error) { return r.malformed, r.first }

// Fault returns the fault that ended a file read with Options.Partial, nil for a sound file.
func (r *Reader) Fault() error { return r.fault }

// All iterates over the routes. It ends after the first error, which it yields with an empty route.
// The route is overwritten by the next one.
func (r *Reader) All(yield func(*Route, error) bool) {
	var route Route
	for {
		err := r.Next(&route)
		if err == io.EOF {
			return
		}
		if err != nil {
			yield(&Route{}, err)
			return
		}
		if !yield(&route, nil) {
			return
		}
	}
}

// Next sets route to the next route. It returns io.EOF at the end, and after an error the same
// error again. Route.Attrs and Route.View are valid until the next call.
func (r *Reader) Next(route *Route) error {
	for r.err == nil {
		switch {
		case r.entries > 0:
			ok, err := r.entry(route)
			if err != nil {
				r.fail(err)
			} else if ok {
				return nil
			}
		case r.message.next(route):
			return nil
		default:
			if err := r.record(); err != nil {
				r.fail(err)
			}
		}
	}
	return r.err
}

func (r *Reader) fail(err error) {
	r.err = err
	if err != io.EOF && r.partial {
		r.err, r.fault = io.EOF, err
	}
}

// errorf returns a fault in the current record's body, left bytes before its end.
func (r *Reader) errorf(left int, format string, args ...any) error {
	return &Error{Offset: r.offset - int64(left), Records: r.records - 1, Reason: fmt.Sprintf(format, args...)}
}

// record reads the next record and prepares its entries. It returns io.EOF at the end.
func (r *Reader) record() error {
	start := r.offset
	var head [mrtHeaderLength]byte
	n, err := io.ReadFull(r.source, head[:])
	r.offset += int64(n)
	if err == io.EOF {
		return err
	}
	if err != nil {
		return r.readError(err, "a record header of 12 bytes", n)
	}
	kind, subtype := binary.BigEndian.Uint16(head[4:]), binary.BigEndian.Uint16(head[6:])
	length := int(binary.BigEndian.Uint32(head[8:]))
	if reason := unusable(kind, subtype); reason != "" {
		return &Error{Offset: start + 4, Records: r.records, Reason: reason}
	}
	if length > maxRecord {
		return &Error{Offset: start + 8, Records: r.records, Reason: fmt.Sprintf("a record of %d bytes exceeds %d", length, maxRecord)}
	}
	if err := r.readBody(length); err != nil {
		return err
	}
	r.records++
	r.rest = r.body
	switch kind {
	case mrtBGP4MPET:
		if _, ok := r.take(4); !ok {
			return r.errorf(len(r.rest), "BGP4MP_ET: the microseconds are missing")
		}
		fallthrough
	case mrtBGP4MP:
		return r.readMessage(subtype, binary.BigEndian.Uint32(head[:]))
	case mrtTableDumpV2:
		switch subtype {
		case ribPeers:
			return r.readPeers()
		case ribIPv4, ribIPv4AddPath:
			r.addPath = subtype == ribIPv4AddPath
			return r.readRIB(4)
		case ribIPv6, ribIPv6AddPath:
			r.addPath = subtype == ribIPv6AddPath
			return r.readRIB(16)
		}
	}
	r.skipped++
	return nil
}

// readBody reads length bytes. Its memory grows with the bytes that arrive.
func (r *Reader) readBody(length int) error {
	const step = 64 << 10
	have := 0
	for have < length {
		want := min(length, max(cap(r.body), have+step))
		if cap(r.body) < want {
			r.body = append(make([]byte, 0, max(want, min(length, 2*have))), r.body[:have]...)
		}
		r.body = r.body[:want]
		n, err := io.ReadFull(r.source, r.body[have:want])
		have += n
		r.offset += int64(n)
		if err != nil {
			if err == io.EOF {
				err = io.ErrUnexpectedEOF
			}
			return r.readError(err, fmt.Sprintf("a record body of %d bytes", length), have)
		}
	}
	r.body = r.body[:length]
	return nil
}

// readError describes an error of the stream after have bytes of something.
func (r *Reader) readError(err error, of string, have int) error {
	reason := fmt.Sprintf("%s ends after %d", of, have)
	if err == io.ErrUnexpectedEOF {
		return &Error{Offset: r.offset, Records: r.records, Reason: reason, Err: errTruncated(r.packing)}
	}
	if r.packing != "" {
		err = fmt.Errorf("%s: %w", r.packing, err)
	}
	return &Error{Offset: r.offset, Records: r.records, Reason: reason, Err: err}
}

type errTruncated string

func (e errTruncated) Error() string {
	if e == "" {
		return "truncated file"
	}
	return "truncated " + string(e) + " file"
}

func (e errTruncated) Unwrap() error { return io.ErrUnexpectedEOF }

// unusable returns the reason against a record type, "" for a type that is read or skipped.
func unusable(kind, subtype uint16) string {
	switch kind {
	case mrtTableDumpV2:
		if subtype == 0 || subtype > lastRIBSubtype {
			return fmt.Sprintf("TABLE_DUMP_V2 subtype %d is unknown", subtype)
		}
		return ""
	case mrtBGP4MP, mrtBGP4MPET:
		if subtype > lastMessageSubtype || subtype == 2 || subtype == 3 {
			return fmt.Sprintf("BGP4MP subtype %d is unknown", subtype)
		}
		return ""
	case mrtTableDump:
		return "TABLE_DUMP (version 1) is unsupported"
	}
	return fmt.Sprintf("record type %d is no BGP table (13) and no BGP message (16, 17)", kind)
}

// take cuts n bytes from the record. Its second result is false if the record is too short.
func (r *Reader) take(n int) ([]byte, bool) {
	if n > len(r.rest) {
		return nil, false
	}
	head := r.rest[:n:n]
	r.rest = r.rest[n:]
	return head, true
}

// readPeers decodes a PEER_INDEX_TABLE (RFC 6396, section 4.3.1).
func (r *Reader) readPeers() error {
	head, ok := r.take(6)
	if !ok {
		return r.errorf(len(r.rest), "PEER_INDEX_TABLE: %d bytes are too short for its header", len(r.rest))
	}
	if _, ok = r.take(int(binary.BigEndian.Uint16(head[4:]))); !ok {
		return r.errorf(len(r.rest), "PEER_INDEX_TABLE: the view name exceeds the record")
	}
	count, ok := r.take(2)
	if !ok {
		return r.errorf(len(r.rest), "PEER_INDEX_TABLE: the peer count is missing")
	}
	r.peers = r.peers[:0:0]
	r.message.peers = nil
	n := int(binary.BigEndian.Uint16(count))
	for i := range n {
		peer, ok := r.readPeer()
		if !ok {
			return r.errorf(len(r.rest), "PEER_INDEX_TABLE: peer %d of %d exceeds the record", i+1, n)
		}
		r.peers = append(r.peers, peer)
	}
	return nil
}

func (r *Reader) readPeer() (peer Peer, ok bool) {
	head, ok := r.take(5)
	if !ok {
		return peer, false
	}
	peer.ID = netip.AddrFrom4([4]byte(head[1:]))
	addr, as := 4, 2
	if head[0]&1 != 0 {
		addr = 16
	}
	if head[0]&2 != 0 {
		as = 4
	}
	rest, ok := r.take(addr + as)
	if !ok {
		return peer, false
	}
	peer.Addr, _ = netip.AddrFromSlice(rest[:addr])
	if as == 4 {
		peer.AS = binary.BigEndian.Uint32(rest[addr:])
	} else {
		peer.AS = uint32(binary.BigEndian.Uint16(rest[addr:]))
	}
	return peer, true
}

// readRIB decodes the head of a RIB record (RFC 6396, section 4.3.2); size is that of an address.
func (r *Reader) readRIB(size int) error {
	head, ok := r.take(5)
	if !ok {
		return r.errorf(len(r.rest), "RIB record: %d bytes are too short for its header", len(r.rest))
	}
	bits := int(head[4])
	if bits > 8*size {
		return r.errorf(len(r.rest)+1, "RIB record: a prefix length of %d exceeds %d bits", bits, 8*size)
	}
	bytes, ok := r.take((bits + 7) / 8)
	if !ok {
		return r.errorf(len(r.rest), "RIB record: a prefix of %d bits exceeds the record", bits)
	}
	r.prefix = prefixOf(bytes, bits, size)
	count, ok := r.take(2)
	if !ok {
		return r.errorf(len(r.rest), "RIB record: the entry count is missing")
	}
	r.entries = int(binary.BigEndian.Uint16(count))
	if r.entries == 0 && len(r.rest) > 0 {
		return r.errorf(len(r.rest), "RIB record: %d bytes follow the last entry", len(r.rest))
	}
	return nil
}

// prefixOf returns the masked prefix; bytes holds its first bits, size is that of an address.
func prefixOf(bytes []byte, bits, size int) netip.Prefix {
	var addr [16]byte
	copy(addr[:], bytes)
	if bits%8 != 0 {
		addr[bits/8] &= 0xff << (8 - bits%8)
	}
	if size == 4 {
		return netip.PrefixFrom(netip.AddrFrom4([4]byte(addr[:4])), bits)
	}
	return netip.PrefixFrom(netip.AddrFrom16(addr), bits)
}

// entry decodes the next entry of a RIB record (RFC 6396, section 4.3.4; RFC 8050, section 4). ok
// is false for a path with faulty attributes.
func (r *Reader) entry(route *Route) (ok bool, err error) {
	size := 8
	if r.addPath {
		size = 12
	}
	head, fits := r.take(size)
	if !fits {
		return false, r.errorf(len(r.rest), "RIB record: %d bytes are too short for an entry of %d more", len(r.rest), r.entries)
	}
	peer := int(binary.BigEndian.Uint16(head))
	if peer >= len(r.peers) {
		return false, r.errorf(len(r.rest)+size, "RIB record: peer %d is not in the table of %d peers", peer, len(r.peers))
	}
	length := int(binary.BigEndian.Uint16(head[size-2:]))
	attrs, fits := r.take(length)
	if !fits {
		return false, r.errorf(len(r.rest)+2, "RIB record: attributes of %d bytes exceed the remaining %d", length, len(r.rest))
	}
	if r.entries--; r.entries == 0 && len(r.rest) > 0 {
		return false, r.errorf(len(r.rest), "RIB record: %d bytes follow the last entry", len(r.rest))
	}
	route.Prefix, route.Peer, route.Withdrawn = r.prefix, peer, false
	route.Time, route.PathID = binary.BigEndian.Uint32(head[2:]), 0
	if r.addPath {
		route.PathID = binary.BigEndian.Uint32(head[6:])
	}
	return r.decode(route, attrs), nil
}

// decode sets the attributes of a route and reports whether they are sound.
func (r *Reader) decode(route *Route, attrs Attrs) bool {
	err := route.View.Parse(attrs)
	if err == nil && route.View.long {
		r.scratch = appendShortened(r.scratch[:0], attrs)
		attrs = r.scratch
		err = route.View.Parse(attrs)
	}
	if err == nil {
		route.Attrs = attrs
		return true
	}
	at := 0
	if fault, is := err.(*AttrError); is {
		at = fault.Offset
	}
	where := r.errorf(len(r.rest)+len(attrs)-at, "%v", route.Prefix).(*Error)
	where.Err = err
	r.count(where)
	return false
}
