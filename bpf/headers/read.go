// SPDX-License-Identifier: Apache-2.0

package headers

// Upper is the upper-layer header of a packet.
type Upper struct {
	Protocol byte // or the kind of a header that is truncated, or one too many
	At       int  // octets from the start of the IPv6 header
	Repeated int  // octets repeated in every fragment, including the IPv6 header
	Later    bool // in a later fragment
}

// Read locates the upper-layer header of an IPv6 packet as its destination would, without reading
// that header.
func Read(packet []byte) Upper {
	var begins []int // offsets of the extension headers
	var kinds []byte
	kind, at := packet[6], ip6
	done := func(later bool) Upper { return Upper{kind, at, repeated(kinds, append(begins, at)), later} }
	for len(kinds) < maxHeaders {
		rest := packet[min(at, len(packet)):]
		size, is := sizeOf(kind, rest)
		if !is || len(rest) < 4 { // nothing beyond a Fragment header's offset is needed
			return done(false)
		}
		if rest[0] == NoNext && (kind == Mobility || kind == HIP || kind == Shim6) {
			return done(false) // a message of that protocol, RFC 6275 section 6.1.1, RFC 7401 section 5.1, RFC 5533 section 5.1
		}
		kinds, begins = append(kinds, kind), append(begins, at)
		later := kind == Fragment && (int(rest[2])*256+int(rest[3]))/8 > 0
		if kind, at = rest[0], at+size; later {
			return done(true)
		}
	}
	return done(false)
}

// sizeOf returns the length of an extension header, and reports whether the kind is one.
func sizeOf(kind byte, rest []byte) (octets int, is bool) {
	var second int
	if len(rest) > 1 {
		second = int(rest[1])
	}
	switch kind {
	case HopByHop, Destination, Routing, // RFC 8200 sections 4.3, 4.4 and 4.6: units of 8 octets, without the first 8
		Mobility, HIP, Shim6:
		return 8 + second*8, true
	case Fragment: // section 4.5
		return 8, true
	case Authentication: // RFC 4302 section 2.2: words of 4 octets, less 2
		return 4*second + 8, true
	}
	return 0, false
}

// repeated returns the length of the part that Linux repeats in fragments, from headers and their
// offsets: Hop-by-Hop, Destination and Routing headers, but no Destination header behind a Routing
// header, which is for the last destination.
func repeated(kinds []byte, begins []int) int {
	routed := false
	for i, kind := range kinds {
		switch kind {
		case HopByHop:
		case Routing:
			routed = true
		case Destination:
			if routed {
				return begins[i]
			}
		default:
			return begins[i]
		}
	}
	return begins[len(kinds)]
}
