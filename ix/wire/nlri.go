// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"encoding/binary"
	"fmt"
	"net/netip"
)

// Family is an address family (RFC 4760).
type Family struct {
	AFI  uint16
	SAFI uint8
}

// Families with routes that are decoded.
var (
	IPv4Unicast = Family{1, 1}
	IPv6Unicast = Family{2, 1}
)

func (f Family) String() string {
	switch f {
	case IPv4Unicast:
		return "IPv4 unicast"
	case IPv6Unicast:
		return "IPv6 unicast"
	}
	return fmt.Sprintf("AFI %d SAFI %d", f.AFI, f.SAFI)
}

// addrSize returns the size of a unicast address in bytes, 0 for other families.
func (f Family) addrSize() int {
	switch f {
	case IPv4Unicast:
		return 4
	case IPv6Unicast:
		return 16
	}
	return 0
}

// NLRI is a sequence of prefixes of one family (RFC 4271, section 4.3), with path identifiers if
// the session has them (RFC 7911). The zero value is empty. An NLRI of an [Update] is sound.
type NLRI struct {
	bytes   []byte
	size    int // of an address
	addPath bool
}

// Empty reports whether no prefix is left.
func (n *NLRI) Empty() bool { return len(n.bytes) == 0 }

// Next cuts the first prefix off. It is masked; id is 0 without path identifiers. ok is false at
// the end.
func (n *NLRI) Next() (prefix netip.Prefix, id uint32, ok bool) {
	if len(n.bytes) == 0 {
		return prefix, 0, false
	}
	prefix, id, rest, reason := n.cut()
	if reason != "" {
		n.bytes = nil
		return netip.Prefix{}, 0, false
	}
	n.bytes = rest
	return prefix, id, true
}

// cut returns the first prefix and the remaining bytes, or the reason why the prefix is malformed.
func (n *NLRI) cut() (prefix netip.Prefix, id uint32, rest []byte, reason string) {
	rest = n.bytes
	if n.addPath {
		if len(rest) < 4 {
			return prefix, 0, nil, "a path identifier is cut off"
		}
		id, rest = binary.BigEndian.Uint32(rest), rest[4:]
	}
	if len(rest) == 0 {
		return prefix, 0, nil, "a prefix is missing after its path identifier"
	}
	bits := int(rest[0])
	if bits > 8*n.size {
		return prefix, 0, nil, fmt.Sprintf("a prefix length of %d exceeds %d bits", bits, 8*n.size)
	}
	end := 1 + (bits+7)/8
	if end > len(rest) {
		return prefix, 0, nil, fmt.Sprintf("a prefix of %d bits exceeds the remaining %d bytes", bits, len(rest)-1)
	}
	return prefixOf(rest[1:end], bits, n.size), id, rest[end:], ""
}

// check returns the offset of the first fault and its description, "" without one.
func (n NLRI) check() (offset int, reason string) {
	whole := len(n.bytes)
	for len(n.bytes) > 0 {
		_, _, rest, reason := n.cut()
		if reason != "" {
			return whole - len(n.bytes), reason
		}
		n.bytes = rest
	}
	return 0, ""
}
