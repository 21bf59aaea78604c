// SPDX-License-Identifier: Apache-2.0

package node

import (
	"encoding/binary"
	"math/bits"
	"slices"
)

/*
 * The judge says what a node is to do to a frame, from RFC 8200, 9197, 9326 and what
 * docs/formats/ioam.md promises. It shares nothing with the programs and the codec: it reads a
 * frame as a list of headers, each a list of options, and changes a copy.
 */

// The bounds within which the programs look at a packet.
const (
	judgedHeaders = 8    // extension headers
	judgedOctets  = 2048 // of them before the last one
	judgedOptions = 48   // options and paddings, and one more is too much
	judgedRouting = 264  // octets of a Routing header that stays where options end
)

// Mistakes, by the names that the codec has for them.
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

// extension is an extension header, as octets of its frame.
type extension struct {
	kind     byte
	from, to int
}

func (e extension) hasOptions() bool { return e.kind == 0 || e.kind == 60 }

// Protocols whose messages have the form of an extension header, which may have another one behind
// them: RFC 6275, 7401 and 5533.
var messages = []byte{135, 139, 140}

// extensions lists the headers behind IPv6's; at the border also those that only the destination
// reads. A message that says that nothing follows hides nothing, and may go on in the next
// fragment.
func extensions(frame []byte, border bool) (list []extension, flaw string) {
	kind, at, fragment := frame[ethernet+6], atOptions, false
	for {
		walked := kind == 60 || kind == 43 || kind == 0 && len(list) == 0 || border && (kind == 44 || kind == 51 || slices.Contains(messages, kind))
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
				return list, "" // a later fragment: what follows is payload
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
	at     int // octet of its header
	octets []byte
}

func (o tlv) padding() bool { return o.kind == 0 || o.kind == 1 }
func (o tlv) ioam() bool    { return o.kind == 0x11 || o.kind == 0x31 }

// frameFlaw is what is wrong with an option of IOAM, whatever it holds.
func (o tlv) frameFlaw() string {
	switch {
	case len(o.octets) < 4:
		return flawShort
	case o.at%4 != 0:
		return flawAlignment
	}
	return ""
}

// tlvs lists the options and paddings of a header, up to the first that it cannot hold or that
// makes a padding too long.
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

// bodyFlaw is what is wrong with the data of an option, behind the IOAM-Option-Type.
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

// wordsOf is the NodeLen of a Trace-Type.
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

// ruling is what a frame is to become.
type ruling struct {
	drop  bool
	want  []byte // what passes
	loose []span // octets of it that depend on when it is
	sums  []span // octets whose ones' complement sum is to be zero
	ended []tlv  // what is taken out of it, in their places in want
	probe bool   // a trace that ends is Active
}

type span struct{ from, to int }

// judge counts what nodes are to count.
type judge struct {
	namespaces map[uint16]Namespace
	counts     map[string]uint64
}

// outside judges at an interface without a role.
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
		for at := 2; at < len(header) && n < judgedOptions; n++ { // well-formed or not
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

// inside judges at an interface with both roles: what leaves, or what comes in where options of
// namespaces with remove end.
func (j *judge) inside(frame []byte, leaving bool) ruling {
	result, seen, met := ruling{want: frame}, 0, 0
	if !slices.Contains([]byte{0, 43, 60}, frame[ethernet+6]) {
		return result
	}
	list, flaw := extensions(frame, false)
	if flaw != "" {
		return result // nobody has seen IOAM
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

// mistaken drops what has IOAM before a mistake or in it; the rest is for the stack to judge.
func (j *judge) mistaken(frame []byte, flaw string, seen int) ruling {
	if seen == 0 {
		return ruling{want: frame}
	}
	j.counts[flaw]++
	return ruling{drop: true}
}
