// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"encoding/binary"
	"fmt"
)

// Community is a community of RFC 1997.
type Community uint32

// Well-known communities.
const (
	GracefulShutdown Community = 0xFFFF0000 // RFC 8326
	Blackhole        Community = 0xFFFF029A // RFC 7999
	NoExport         Community = 0xFFFFFF01 // RFC 1997
	NoAdvertise      Community = 0xFFFFFF02 // RFC 1997
	NoExportSubconf  Community = 0xFFFFFF03 // RFC 1997
)

func (c Community) String() string { return fmt.Sprintf("%d:%d", uint32(c)>>16, uint32(c)&0xFFFF) }

// Communities is the value of a COMMUNITIES attribute.
type Communities []byte

// Has reports whether the attribute has a community.
func (c Communities) Has(community Community) bool {
	for ; len(c) >= 4; c = c[4:] {
		if Community(binary.BigEndian.Uint32(c)) == community {
			return true
		}
	}
	return false
}

// Internal reports whether a community keeps the path from external sessions: NO_EXPORT,
// NO_ADVERTISE or NO_EXPORT_SUBCONFED (RFC 1997).
func (c Communities) Internal() bool {
	for ; len(c) >= 4; c = c[4:] {
		switch Community(binary.BigEndian.Uint32(c)) {
		case NoExport, NoAdvertise, NoExportSubconf:
			return true
		}
	}
	return false
}

// All iterates over the communities in order.
func (c Communities) All(yield func(Community) bool) {
	for ; len(c) >= 4; c = c[4:] {
		if !yield(Community(binary.BigEndian.Uint32(c))) {
			return
		}
	}
}

// LargeCommunity is a community of RFC 8092.
type LargeCommunity struct{ Global, Local1, Local2 uint32 }

func (c LargeCommunity) String() string { return fmt.Sprintf("%d:%d:%d", c.Global, c.Local1, c.Local2) }

// LargeCommunities is the value of a LARGE_COMMUNITY attribute.
type LargeCommunities []byte

// Has reports whether the attribute has a community.
func (c LargeCommunities) Has(community LargeCommunity) bool {
	for have := range c.All {
		if have == community {
			return true
		}
	}
	return false
}

// All iterates over the communities in order.
func (c LargeCommunities) All(yield func(LargeCommunity) bool) {
	for ; len(c) >= 12; c = c[12:] {
		have := LargeCommunity{binary.BigEndian.Uint32(c), binary.BigEndian.Uint32(c[4:]), binary.BigEndian.Uint32(c[8:])}
		if !yield(have) {
			return
		}
	}
}
