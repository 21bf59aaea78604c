// SPDX-License-Identifier: Apache-2.0

package websocket

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// Opcode is the type of a frame (RFC 6455, section 5.2).
type Opcode uint8

const (
	Continuation Opcode = 0
	Text         Opcode = 1
	Binary       Opcode = 2
	Close        Opcode = 8
	Ping         Opcode = 9
	Pong         Opcode = 10
)

func (o Opcode) control() bool { return o >= Close }

const (
	maxControl   = 125 // payload of a control frame in bytes (section 5.5)
	MaxHeaderLen = 14  // bytes of the longest frame header
)

// Header is a frame header. Key is used if Masked is set.
type Header struct {
	Fin    bool
	Opcode Opcode
	Masked bool
	Key    [4]byte
	Length uint64 // of the payload in bytes
}

// errShort is returned by [ParseHeader] if the header continues after the given bytes.
var errShort = errors.New("the frame header is not complete")

// ParseHeader decodes the frame header at the start of b and returns its length in bytes. It
// rejects reserved bits and opcodes, fragmented or long control frames, and lengths that are not
// in their shortest form or exceed 2^63-1 (RFC 6455, sections 5.2 and 5.5).
func ParseHeader(b []byte) (h Header, n int, err error) {
	if len(b) < 2 {
		return h, 0, errShort
	}
	h = Header{Fin: b[0]&0x80 != 0, Opcode: Opcode(b[0] & 0x0f), Masked: b[1]&0x80 != 0, Length: uint64(b[1] & 0x7f)}
	switch {
	case b[0]&0x70 != 0:
		return h, 0, violation("the frame has reserved bits 0x%02x, and no extension is negotiated", b[0]&0x70)
	case h.Opcode > Binary && h.Opcode < Close || h.Opcode > Pong:
		return h, 0, violation("the frame has the reserved opcode %d", h.Opcode)
	case h.Opcode.control() && !h.Fin:
		return h, 0, violation("a control frame is fragmented")
	case h.Opcode.control() && h.Length > maxControl:
		return h, 0, violation("a control frame has more than %d bytes", maxControl)
	}
	n = 2
	switch h.Length {
	case 126:
		if len(b) < n+2 {
			return h, 0, errShort
		}
		h.Length, n = uint64(binary.BigEndian.Uint16(b[n:])), n+2
		if h.Length < 126 {
			return h, 0, violation("the frame length %d is not in its shortest form", h.Length)
		}
	case 127:
		if len(b) < n+8 {
			return h, 0, errShort
		}
		h.Length, n = binary.BigEndian.Uint64(b[n:]), n+8
		if h.Length>>63 != 0 || h.Length <= 0xffff {
			return h, 0, violation("the frame length %d is not in its shortest form or above 2^63-1", h.Length)
		}
	}
	if h.Masked {
		if len(b) < n+4 {
			return h, 0, errShort
		}
		n += copy(h.Key[:], b[n:])
	}
	return h, n, nil
}

// Append appends the encoded header to b.
func (h Header) Append(b []byte) []byte {
	first, second := byte(h.Opcode), byte(0)
	if h.Fin {
		first |= 0x80
	}
	if h.Masked {
		second = 0x80
	}
	switch {
	case h.Length < 126:
		b = append(b, first, second|byte(h.Length))
	case h.Length <= 0xffff:
		b = binary.BigEndian.AppendUint16(append(b, first, second|126), uint16(h.Length))
	default:
		b = binary.BigEndian.AppendUint64(append(b, first, second|127), h.Length)
	}
	if h.Masked {
		b = append(b, h.Key[:]...)
	}
	return b
}

// Mask applies the masking key to b; offset is the position of b in the payload (section 5.3).
func (h Header) mask(b []byte, offset uint64) {
	for i := range b {
		b[i] ^= h.Key[(offset+uint64(i))&3]
	}
}

// Status is the status code of a Close frame (RFC 6455, section 7.4.1).
type Status uint16

const (
	Normal      Status = 1000
	GoingAway   Status = 1001
	Protocol    Status = 1002
	Unsupported Status = 1003
	NoStatus    Status = 1005 // never sent: the Close frame was empty
	Invalid     Status = 1007
	TooBig      Status = 1009
	Policy      Status = 1008
	Internal    Status = 1011
)

// Error is a violation of the protocol by the peer. Status is the code of the Close frame that
// reports it.
type Error struct {
	Status Status
	reason string
}

func (e *Error) Error() string { return e.reason }

func violation(format string, args ...any) error {
	return &Error{Status: Protocol, reason: fmt.Sprintf(format, args...)}
}

// Violation returns an error that [StatusOf] maps to the status.
func Violation(status Status, format string, args ...any) error {
	return &Error{Status: status, reason: fmt.Sprintf(format, args...)}
}

// StatusOf returns the status and reason of a violation in err's chain; ok is false for other
// errors, after which no Close frame can be sent.
func StatusOf(err error) (status Status, reason string, ok bool) {
	var e *Error
	if !errors.As(err, &e) {
		return 0, "", false
	}
	return e.Status, e.reason, true
}
