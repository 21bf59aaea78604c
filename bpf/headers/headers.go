// SPDX-License-Identifier: Apache-2.0

// Package headers builds packets with IPv6 extension headers, and parses them, for tests of data
// planes. [Read] is the oracle of bpf/upper_layer.h; it is written from the RFCs alone.
package headers

import (
	"encoding/binary"
	"math/rand/v2"
	"slices"
)

// Next headers, by IANA's numbers.
const (
	HopByHop       byte = 0
	Routing        byte = 43
	Fragment       byte = 44
	Authentication byte = 51
	NoNext         byte = 59
	Destination    byte = 60
	Mobility       byte = 135
	HIP            byte = 139
	Shim6          byte = 140
)

const (
	ethernet   = 14
	ip6        = 40
	maxHeaders = 8 // maximum number of headers that data planes skip
)

// Header is an extension header: its kind, and its octets; the first one will hold the next header.
type Header struct {
	Kind   byte
	Octets []byte
}

// Options returns a Hop-by-Hop or Destination header with a length in octets, a multiple of 8,
// filled with padding.
func Options(kind byte, octets int) Header {
	h := []byte{0, byte(octets/8 - 1)}
	for left := octets - 2; left > 0; {
		n := min(left, 7) // padding in a row; the separator is an option that receivers skip
		if left == 8 {
			n = 6 // or one octet would remain
		}
		h = append(append(h, 1, byte(n-2)), make([]byte, n-2)...)
		if left -= n; left >= 2 {
			n = min(left, 9)
			h = append(append(h, 0x1e, byte(n-2)), make([]byte, n-2)...)
			left -= n
		}
	}
	return Header{kind, h}
}

// Segments returns a Routing header with n segments (RFC 8754), all passed except the first.
func Segments(n int) Header {
	h := make([]byte, 8+16*n)
	h[1], h[2], h[4] = byte(2*n), 4, byte(max(n-1, 0))
	return Header{Routing, h}
}

// Piece returns a Fragment header: offset in units of 8 octets, and the more-fragments flag.
func Piece(offset uint16, more bool) Header {
	h := []byte{0, 0, 0, 0, 1, 2, 3, 4}
	binary.BigEndian.PutUint16(h[2:], offset<<3)
	if more {
		h[3] |= 1
	}
	return Header{Fragment, h}
}

// Authenticated returns an Authentication header with a check value of the given number of 4-octet
// words.
func Authenticated(words int) Header {
	h := make([]byte, 12+4*words)
	h[1] = byte(len(h)/4 - 2)
	return Header{Authentication, h}
}

// Signalling returns a Mobility, HIP or Shim6 header with a length in octets, a multiple of 8.
func Signalling(kind byte, octets int) Header {
	h := make([]byte, octets)
	h[1] = byte(octets/8 - 1)
	return Header{kind, h}
}

// Insert inserts headers behind the IPv6 header of an Ethernet frame.
func Insert(frame []byte, chain ...Header) []byte {
	out := slices.Clone(frame[:ethernet+ip6])
	last := ethernet + 6 // octet of the next-header field still to be written
	follows := frame[last]
	for _, h := range chain {
		out[last], last = h.Kind, len(out)
		out = append(out, h.Octets...)
	}
	out[last] = follows
	out = append(out, frame[ethernet+ip6:]...)
	binary.BigEndian.PutUint16(out[ethernet+4:], uint16(len(out)-ethernet-ip6))
	return out
}

// Chain is headers in front of an upper layer.
type Chain struct {
	Name    string
	Headers []Header
	Later   bool // in a later fragment, which has no upper-layer header
}

// Chains are the chains that every data plane must skip.
func Chains() []Chain {
	hop, destination := Options(HopByHop, 8), Options(Destination, 24)
	return []Chain{
		{"Hop-by-Hop", []Header{hop}, false},
		{"Destination", []Header{destination}, false},
		{"Routing", []Header{Segments(2)}, false},
		{"Hop-by-Hop and Destination", []Header{hop, destination}, false},
		{"Hop-by-Hop of 128 octets and Destination", []Header{Options(HopByHop, 128), destination}, false},
		{"Authentication", []Header{Authenticated(3)}, false},
		{"Mobility", []Header{Signalling(Mobility, 16)}, false},
		{"HIP", []Header{Signalling(HIP, 40)}, false},
		{"Shim6", []Header{Signalling(Shim6, 8)}, false},
		{"an atomic fragment", []Header{Piece(0, false)}, false},
		{"a first fragment", []Header{hop, Piece(0, true), destination}, false},
		{"a later fragment", []Header{hop, destination, Piece(185, false)}, true},
		{"all kinds", []Header{hop, destination, Segments(1), Piece(0, true), Authenticated(1), destination, Signalling(Shim6, 8)}, false},
	}
}

// Random returns a random chain, which RFC 8200 may not allow.
func Random(r *rand.Rand) (chain []Header) {
	for range r.IntN(maxHeaders + 2) {
		switch kind := []byte{HopByHop, Destination, Routing, Fragment, Authentication, Mobility, HIP, Shim6}[r.IntN(8)]; kind {
		case HopByHop, Destination:
			chain = append(chain, Options(kind, 8+8*r.IntN(4)))
		case Routing:
			chain = append(chain, Segments(r.IntN(4)))
		case Fragment:
			chain = append(chain, Piece(uint16(r.IntN(10)/9*r.IntN(1<<13)), r.IntN(2) == 0))
		case Authentication:
			chain = append(chain, Authenticated(r.IntN(8)))
		default:
			chain = append(chain, Signalling(kind, 8+8*r.IntN(4)))
		}
	}
	return chain
}
