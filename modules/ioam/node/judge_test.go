// SPDX-License-Identifier: Apache-2.0

package node

import (
	"encoding/binary"
	"math/bits"
	"slices"
)

/*
 * The judge derives the expected result for a frame from RFC 8200, 9197, 9326 and
 * docs/formats/ioam.md. It shares no code with the programs and the codec: it reads a frame as a
 * list of headers, each a list of options, and changes a copy.
 */

// The limits of the parser in the programs.
const (
	judgedHeaders = 8    // extension headers
	judgedOctets  = 2048 // bytes of them before the last one
	judgedOptions = 48   // maximum number of options and paddings
	judgedRouting = 264  // maximum bytes of a Routing header in a packet with removed options
)

// Mistakes, by the codec's reasons.
const (
	flawHeader    = "header truncated"
	flawOption    = "option truncated"
	flawPadding   = "padding"
	flawShort     = "option too short"
	flawOdd       = "length not in words"
	flawAlignment = "alignment"
	flawLength    = "node length"
	flawRemaining = "remaining length"
	flawSequences = "two sequence numbers"
	flawFields    = "field length"
	flawMany      = "more than is looked at"
)

// extension is an extension header, as bytes of its frame.
type extension struct {
	kind     byte
	from, to int
}

func (e extension) hasOptions() bool { return e.kind == 0 || e.kind == 60 }

// Protocols with the form of an extension header, which may be followed by another one: RFC 6275,
// 7401 and 5533.
var messages = []byte{135, 139, 140}

// extensions lists the extension headers; at the border also those for the destination alone. A
// message without next header has none behind it, and may continue in the next fragment.
func extensions(frame []byte, border bool) (list []extension, flaw string) {
	kind, at, fragment := frame[ethernet+6], atOptions, false
	for {
		walked := kind == 60 || kind == 43 || kind == 0 && len(list) == 0 || border && (kind == 0 || kind == 44 || kind == 51 || slices.Contains(messages, kind))
		switch {
		case !walked:
			return list, ""
		case len(list) == judgedHeaders || at-atOptions >= judgedOctets:
			return list, flawMany
		case len(frame) < at+8 && fragment:
			return list, flawMany
		case len(frame) < at+8:
			return list, flawHeader
		case frame[at] == 59 && slices.Contains(messages, kind):
			return list, ""
		}
		size := 8 + 8*int(frame[at+1])
		if kind == 44 {
			size = 8
		} else if kind == 51 {
			size = 8 + 4*int(frame[at+1])
		}
		if len(frame) < at+size {
			if fragment {
				return list, flawMany
			}
			return list, flawHeader
		}
		if kind == 44 {
			if binary.BigEndian.Uint16(frame[at+2:])>>3 != 0 {
				return list, "" // a later fragment: payload follows
			}
			fragment = true
		}
		list = append(list, extension{kind, at, at + size})
		kind, at = frame[at], at+size
	}
}

// tlv is an option or a padding of a header.
type tlv struct {
	kind   byte
	at     int // offset in the header
	octets []byte
}

func (o tlv) padding() bool { return o.kind == 0 || o.kind == 1 }
func (o tlv) ioam() bool    { return o.kind == 0x11 || o.kind == 0x31 }

// frameFlaw returns the mistake in the frame of an IOAM option.
func (o tlv) frameFlaw() string {
	switch {
	case len(o.octets) < 4:
		return flawShort
	case o.at%4 != 0:
		return flawAlignment
	}
	return ""
}

// tlvs lists options and paddings of a header, up to the first truncated option or long padding.
func tlvs(header []byte) (list []tlv, flaw string) {
	row := 0
	for at := 2; at < len(header); {
		size := 1
		if header[at] != 0 {
			if at+1 == len(header) || at+2+int(header[at+1]) > len(header) {
				return list, flawOption
			}
			size = 2 + int(header[at+1])
		}
		o := tlv{header[at], at, header[at : at+size]}
		if row += size; !o.padding() {
			row = 0
		}
		if row > 7 {
			return list, flawPadding
		}
		list = append(list, o)
		at += size
	}
	return list, ""
}

// bodyFlaw returns the mistake in the data of an option, behind the IOAM-Option-Type.
func bodyFlaw(kind byte, data []byte) string {
	if len(data) < 4 {
		return flawShort
	}
	second := binary.BigEndian.Uint16(data[2:])
	switch kind {
	case 0, 1:
		if len(data) < 8 {
			return flawShort
		}
		if len(data)%4 != 0 {
			return flawOdd
		}
		if int(second>>11) != wordsOf(binary.BigEndian.Uint32(data[4:])>>8) {
			return flawLength
		}
		if kind == 0 && int(second&127)*4 > len(data)-8 {
			return flawRemaining
		}
	case 2:
		if data[2] == 0 && len(data) != 20 {
			return flawFields
		}
	case 3:
		if second>>14 == 3 {
			return flawSequences
		}
		if len(data) < 4+4*bits.OnesCount16(second>>12)+4*int(second>>15) {
			return flawFields
		}
	case 4:
		if len(data) < 8 {
			return flawShort
		}
		if len(data) != 8+4*bits.OnesCount8(data[3]) {
			return flawFields
		}
	}
	return ""
}

// wordsOf returns the NodeLen of a Trace-Type.
func wordsOf(kind uint32) (words int) {
	for bit := range 22 {
		if kind>>(23-bit)&1 == 1 {
			words++
			if bit >= 8 && bit <= 10 {
				words++
			}
		}
	}
	return words
}

// ruling is the expected result for a frame.
type ruling struct {
	drop  bool
	want  []byte // expected frame if it passes
	loose []span // its bytes that depend on the time
	sums  []span // bytes with a ones' complement sum of 0
	ended []tlv  // options to remove, at their place in want
	probe bool   // a trace that ends is active
}

type span struct{ from, to int }

// judge holds the expected counters.
type judge struct {
	namespaces map[uint16]Namespace
	counts     map[string]uint64
}

// outside judges a frame at an interface without roles.
func (j *judge) outside(frame []byte, leaving bool) ruling {
	pass := ruling{want: frame}
	if !slices.Contains(append([]byte{0, 43, 60, 44, 51}, messages...), frame[ethernet+6]) {
		return pass
	}
	list, flaw := extensions(frame, true)
	drop := flaw == flawMany || flaw != "" && leaving
	for _, e := range list {
		if flaw != "" || !e.hasOptions() {
			continue
		}
		header := frame[e.from:e.to]
		n := 0
		for at := 2; at < len(header) && n < judgedOptions; n++ { // valid or not
			drop = drop || header[at] == 0x11 || header[at] == 0x31
			if header[at] == 0 {
				at++
			} else if at+1 < len(header) {
				at += 2 + int(header[at+1])
			} else {
				at = len(header)
			}
			drop = drop || n == judgedOptions-1 && at < len(header)
		}
	}
	if !drop {
		return pass
	}
	if leaving {
		j.counts["to_outside"]++
	} else {
		j.counts["from_outside"]++
	}
	return ruling{drop: true}
}

// inside judges a frame at an interface with both roles. leaving is egress; otherwise options of
// namespaces with remove end.
func (j *judge) inside(frame []byte, leaving bool) ruling {
	result, seen, met := ruling{want: frame}, 0, 0
	if !slices.Contains([]byte{0, 43, 60}, frame[ethernet+6]) {
		return result
	}
	list, flaw := extensions(frame, false)
	if flaw != "" {
		return result // no IOAM found
	}
	result.want = slices.Clone(frame)
	for _, e := range list {
		if !e.hasOptions() {
			continue
		}
		all, rest := tlvs(frame[e.from:e.to])
		for _, o := range all {
			if o.ioam() {
				seen++
				if flaw = j.option(&result, e, o, leaving); flaw != "" {
					return j.mistaken(frame, flaw, seen)
				}
			}
			if met++; met == judgedOptions {
				return j.mistaken(frame, flawMany, seen)
			}
		}
		if rest != "" {
			return j.mistaken(frame, rest, seen)
		}
	}
	if len(result.ended) == 0 {
		return result
	}
	if result.probe {
		j.counts["terminated"]++
		return ruling{drop: true}
	}
	for _, e := range list {
		if e.kind == 43 && e.to-e.from > judgedRouting {
			return ruling{drop: true}
		}
	}
	j.counts["removed"]++
	return result
}

// mistaken drops frames with IOAM up to the mistake; the stack judges others.
func (j *judge) mistaken(frame []byte, flaw string, seen int) ruling {
	if seen == 0 {
		return ruling{want: frame}
	}
	j.counts[flaw]++
	return ruling{drop: true}
}
