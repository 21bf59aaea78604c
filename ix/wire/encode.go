// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"encoding/binary"
	"fmt"
	"strings"
	"unicode/utf8"
)

// Codes of NOTIFICATION (RFC 4271, section 4.5; RFC 9687 for the send hold timer).
const (
	CodeHoldTimer     = 4
	CodeState         = 5
	CodeCease         = 6
	CodeSendHoldTimer = 8
)

// Subcodes of Cease (RFC 4486; RFC 8538).
const (
	CeaseShutdown       = 2
	CeaseReset          = 4
	CeaseRejected       = 5
	CeaseCollision      = 7
	CeaseOutOfResources = 8
)

// Subtypes of ROUTE-REFRESH.
const (
	RefreshRequest = 0 // RFC 2918
	RefreshBegin   = 1 // RFC 7313
	RefreshEnd     = 2
)

const (
	maxShutdownText = 255 // bytes (RFC 9003)
	sizeOffset      = 16  // of the length in a header
)

// begin appends the header of a message; finish sets its length.
func begin(dst []byte, kind uint8) []byte {
	return append(dst, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0, 0, kind)
}

func finish(dst []byte, start int) []byte {
	binary.BigEndian.PutUint16(dst[start+sizeOffset:], uint16(len(dst)-start))
	return dst
}

// AppendKeepalive appends a KEEPALIVE to dst.
func AppendKeepalive(dst []byte) []byte { return finish(begin(dst, TypeKeepalive), len(dst)) }

// AppendOpen appends an OPEN with its header to dst.
func AppendOpen(dst []byte, o *Open) []byte {
	start := len(dst)
	return finish(o.Append(begin(dst, TypeOpen)), start)
}

// AppendRefresh appends a ROUTE-REFRESH of a subtype (RFC 2918, RFC 7313) to dst.
func AppendRefresh(dst []byte, f Family, subtype uint8) []byte {
	start := len(dst)
	return finish(append(begin(dst, TypeRouteRefresh), byte(f.AFI>>8), byte(f.AFI), subtype, f.SAFI), start)
}

// ParseRefresh decodes the body of a ROUTE-REFRESH. The error is a [*MessageError].
func ParseRefresh(body []byte) (f Family, subtype uint8, err error) {
	if len(body) != 4 {
		return f, 0, &MessageError{codeRefresh, refreshBadLength, 0, fmt.Sprintf("a ROUTE-REFRESH of %d bytes is none of 4", len(body))}
	}
	return Family{binary.BigEndian.Uint16(body), body[3]}, body[2], nil
}

const (
	codeRefresh      = 7 // RFC 7313, section 5
	refreshBadLength = 1
)

// AppendEndOfRIB appends an End-of-RIB marker (RFC 4724, section 2) to dst.
func AppendEndOfRIB(dst []byte, f Family) []byte {
	start := len(dst)
	dst = begin(dst, TypeUpdate)
	if f == IPv4Unicast {
		return finish(append(dst, 0, 0, 0, 0), start)
	}
	return finish(append(dst, 0, 0, 0, 6, FlagOptional, byte(AttrMPUnreach), 3, byte(f.AFI>>8), byte(f.AFI), f.SAFI), start)
}

// Notification is a NOTIFICATION (RFC 4271, section 4.5). As an error it is the end of a session
// that the peer has reported.
type Notification struct {
	Code, Subcode uint8
	Data          []byte
}

// ParseNotification decodes the body of a NOTIFICATION, which has two bytes at least.
func ParseNotification(body []byte) *Notification {
	return &Notification{body[0], body[1], append([]byte(nil), body[2:]...)}
}

// Append appends the message to dst.
func (n *Notification) Append(dst []byte) []byte {
	start := len(dst)
	return finish(append(append(begin(dst, TypeNotification), n.Code, n.Subcode), n.Data...), start)
}

// Shutdown returns a Cease for an administrative shutdown with a message to the peer's operator
// (RFC 9003), cut at 255 bytes.
func Shutdown(text string) *Notification {
	text = strings.ToValidUTF8(text, "")
	for len(text) > maxShutdownText {
		_, size := utf8.DecodeLastRuneInString(text)
		text = text[:len(text)-size]
	}
	n := &Notification{Code: CodeCease, Subcode: CeaseShutdown}
	if text != "" {
		n.Data = append([]byte{byte(len(text))}, text...)
	}
	return n
}

// Text returns the shutdown message of the peer's operator (RFC 9003), "" without one. Control
// characters are removed.
func (n *Notification) Text() string {
	if n.Code != CodeCease || n.Subcode != CeaseShutdown && n.Subcode != CeaseReset || len(n.Data) == 0 || int(n.Data[0]) > len(n.Data)-1 {
		return ""
	}
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || r == utf8.RuneError {
			return -1
		}
		return r
	}, string(n.Data[1:1+n.Data[0]]))
}

var notificationNames = map[uint8]string{codeHeader: "message header error", codeOpen: "OPEN error", codeUpdate: "UPDATE error",
	CodeHoldTimer: "hold timer expired", CodeState: "message in a wrong state", CodeCease: "Cease", codeRefresh: "ROUTE-REFRESH error", CodeSendHoldTimer: "send hold timer expired"}

var ceaseNames = map[uint8]string{1: "maximum number of prefixes", CeaseShutdown: "administrative shutdown", 3: "peer de-configured", CeaseReset: "administrative reset",
	CeaseRejected: "connection rejected", 6: "configuration change", CeaseCollision: "connection collision", CeaseOutOfResources: "out of resources", 9: "hard reset"}

func (n *Notification) Error() string {
	name, known := notificationNames[n.Code]
	if !known {
		name = fmt.Sprintf("code %d", n.Code)
	}
	if sub, known := ceaseNames[n.Subcode]; known && n.Code == CodeCease {
		name += ", " + sub
	} else if n.Subcode != 0 {
		name += fmt.Sprintf(", subcode %d", n.Subcode)
	}
	if text := n.Text(); text != "" {
		name += fmt.Sprintf(": %q", text)
	}
	return name
}
