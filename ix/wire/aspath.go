// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"encoding/binary"
	"fmt"
	"strconv"
)

// Types of AS_PATH segments (RFC 4271, section 4.3; RFC 5065, section 3).
const (
	ASSet            = 1
	ASSequence       = 2
	ASConfedSequence = 3
	ASConfedSet      = 4
)

// ASPath is the value of an AS_PATH attribute with AS numbers of four bytes. Its methods do not
// allocate. They end at the first malformed segment; a path of a [View] has none.
type ASPath []byte

// segment returns the type and the AS numbers (four bytes each) of the first segment, and the
// rest. ok is false at the end and at a malformed segment.
func (p ASPath) segment() (kind uint8, ases []byte, rest ASPath, ok bool) {
	if len(p) < 2 {
		return 0, nil, nil, false
	}
	end := 2 + 4*int(p[1])
	if end > len(p) {
		return 0, nil, nil, false
	}
	return p[0], p[2:end], p[end:], true
}

// checkASPath returns the offset of the first fault of a path with AS numbers of size bytes, and
// its description, "" without one.
func checkASPath(p []byte, size int) (int, string) {
	for offset := 0; offset < len(p); {
		if len(p)-offset < 2 {
			return offset, "1 byte is too short for a segment"
		}
		kind, count := p[offset], int(p[offset+1])
		if kind < ASSet || kind > ASConfedSet {
			return offset, fmt.Sprintf("segment type %d is unknown", kind)
		}
		if count == 0 {
			return offset, "a segment is empty"
		}
		if size*count > len(p)-offset-2 {
			return offset, fmt.Sprintf("a segment of %d AS numbers exceeds the remaining %d bytes", count, len(p)-offset-2)
		}
		offset += 2 + size*count
	}
	return 0, ""
}

// Len returns the length by RFC 4271, section 9.1.2.2: an AS_SET counts as one, and confederation
// segments count as none (RFC 5065, section 5.3).
func (p ASPath) Len() int {
	length := 0
	for {
		kind, ases, rest, ok := p.segment()
		if !ok {
			return length
		}
		switch kind {
		case ASSequence:
			length += len(ases) / 4
		case ASSet:
			length++
		}
		p = rest
	}
}

// First returns the first AS number, that of the neighbor. It returns 0 for an empty path and for
// a path that starts with a set.
func (p ASPath) First() uint32 {
	kind, ases, _, ok := p.segment()
	if !ok || kind != ASSequence || len(ases) < 4 {
		return 0
	}
	return binary.BigEndian.Uint32(ases)
}

// Second returns the first AS number of a sequence that differs from [ASPath.First], so that
// prepending does not count. It returns 0 if there is none.
func (p ASPath) Second() uint32 {
	first := p.First()
	if first == 0 {
		return 0
	}
	for {
		kind, ases, rest, ok := p.segment()
		if !ok || kind != ASSequence {
			return 0
		}
		for ; len(ases) >= 4; ases = ases[4:] {
			if as := binary.BigEndian.Uint32(ases); as != first {
				return as
			}
		}
		p = rest
	}
}

// Origin returns the last AS number of the path, that of the originator. It returns 0 for an empty
// path and for a path that ends with a set.
func (p ASPath) Origin() uint32 {
	origin := uint32(0)
	for {
		kind, ases, rest, ok := p.segment()
		if !ok {
			return origin
		}
		origin = 0
		if kind == ASSequence && len(ases) >= 4 {
			origin = binary.BigEndian.Uint32(ases[len(ases)-4:])
		}
		p = rest
	}
}

// Contains reports whether an AS number is in any segment.
func (p ASPath) Contains(as uint32) bool {
	for {
		_, ases, rest, ok := p.segment()
		if !ok {
			return false
		}
		for ; len(ases) >= 4; ases = ases[4:] {
			if binary.BigEndian.Uint32(ases) == as {
				return true
			}
		}
		p = rest
	}
}

// HasSet reports whether the path has an AS_SET or AS_CONFED_SET, deprecated by RFC 9774.
func (p ASPath) HasSet() bool {
	for {
		kind, _, rest, ok := p.segment()
		if !ok {
			return false
		}
		if kind == ASSet || kind == ASConfedSet {
			return true
		}
		p = rest
	}
}

// HasLoop reports whether an AS number of the sequences returns after a different one. Prepending
// is no loop. The cost is quadratic in the length of the path.
func (p ASPath) HasLoop() bool {
	last := uint32(0)
	for rest := p; ; {
		kind, ases, after, ok := rest.segment()
		if !ok {
			return false
		}
		if kind == ASSequence {
			for i := 0; i+4 <= len(ases); i += 4 {
				as := binary.BigEndian.Uint32(ases[i:])
				if as != last && p.before(as, len(p)-len(rest)+2+i) {
					return true
				}
				last = as
			}
		}
		rest = after
	}
}

// before reports whether a sequence has an AS number at an offset below end.
func (p ASPath) before(as uint32, end int) bool {
	for rest := p; ; {
		kind, ases, after, ok := rest.segment()
		start := len(p) - len(rest) + 2
		if !ok || start >= end {
			return false
		}
		if kind == ASSequence {
			for i := 0; i+4 <= len(ases) && start+i < end; i += 4 {
				if binary.BigEndian.Uint32(ases[i:]) == as {
					return true
				}
			}
		}
		rest = after
	}
}

// All iterates over the AS numbers of all segments in order.
func (p ASPath) All(yield func(as uint32) bool) {
	for {
		_, ases, rest, ok := p.segment()
		if !ok {
			return
		}
		for ; len(ases) >= 4; ases = ases[4:] {
			if !yield(binary.BigEndian.Uint32(ases)) {
				return
			}
		}
		p = rest
	}
}

// segmentForms holds the opening, separating and closing character of each segment type.
var segmentForms = [5]string{ASSet: "{,}", ASSequence: "   ", ASConfedSequence: "( )", ASConfedSet: "[,]", 0: "   "}

// String returns the path as routers print it: "64500 64501 {64502,64503}", confederation sequences
// in parentheses and confederation sets in brackets.
func (p ASPath) String() string {
	var text []byte
	for {
		kind, ases, rest, ok := p.segment()
		if !ok {
			return string(text)
		}
		if len(text) > 0 {
			text = append(text, ' ')
		}
		if kind > ASConfedSet {
			return string(text)
		}
		form := segmentForms[kind]
		if kind != ASSequence {
			text = append(text, form[0])
		}
		for i := 0; i+4 <= len(ases); i += 4 {
			if i > 0 {
				text = append(text, form[1])
			}
			text = strconv.AppendUint(text, uint64(binary.BigEndian.Uint32(ases[i:])), 10)
		}
		if kind != ASSequence {
			text = append(text, form[2])
		}
		p = rest
	}
}
