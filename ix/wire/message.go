// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"encoding/binary"
	"fmt"
)

// Types of BGP messages (RFC 4271, section 4.1; RFC 2918).
const (
	TypeOpen         = 1
	TypeUpdate       = 2
	TypeNotification = 3
	TypeKeepalive    = 4
	TypeRouteRefresh = 5
)

// Sizes of BGP messages in bytes, with their header.
const (
	HeaderSize         = 19
	MaxMessage         = 4096  // RFC 4271, section 4.1
	MaxExtendedMessage = 65535 // RFC 8654
)

// ParseHeader decodes the header of a BGP message (RFC 4271, section 4.1) and returns the type of
// the message and its size, header included. max is [MaxMessage] or [MaxExtendedMessage]. The
// error is a [*MessageError].
func ParseHeader(header []byte, max int) (kind uint8, size int, err error) {
	if len(header) < HeaderSize {
		return 0, 0, headerError(headerBadLength, len(header), "a header of %d bytes is shorter than %d", len(header), HeaderSize)
	}
	for i, b := range header[:16] {
		if b != 0xff {
			return 0, 0, headerError(headerNotSynchronized, i, "the marker is not all ones")
		}
	}
	kind, size = header[18], int(binary.BigEndian.Uint16(header[16:]))
	if kind < TypeOpen || kind > TypeRouteRefresh {
		return 0, 0, headerError(headerBadType, 18, "message type %d is unknown", kind)
	}
	if kind == TypeOpen || kind == TypeKeepalive {
		max = min(max, MaxMessage) // RFC 8654, section 4
	}
	least := [...]int{TypeOpen: 29, TypeUpdate: 23, TypeNotification: 21, TypeKeepalive: 19, TypeRouteRefresh: 23}[kind]
	if size < least || size > max || kind == TypeKeepalive && size != least {
		return 0, 0, headerError(headerBadLength, 16, "a length of %d bytes does not fit message type %d", size, kind)
	}
	return kind, size, nil
}

func headerError(subcode uint8, offset int, format string, args ...any) error {
	return &MessageError{codeHeader, subcode, offset, fmt.Sprintf(format, args...)}
}
