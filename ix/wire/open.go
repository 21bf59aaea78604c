// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"encoding/binary"
	"fmt"
	"net/netip"
)

// Capability codes (IANA, Capability Codes).
const (
	capFamily           = 1  // RFC 4760
	capRouteRefresh     = 2  // RFC 2918
	capExtendedMessages = 6  // RFC 8654
	capGracefulRestart  = 64 // RFC 4724
	capAS4              = 65 // RFC 6793
	capAddPath          = 69 // RFC 7911
	capEnhancedRefresh  = 70 // RFC 7313
	capPathsLimit       = 76 // draft-abraitis-idr-addpath-paths-limit-04
)

// Open is a decoded OPEN (RFC 4271, section 4.2) with its capabilities (RFC 5492). The zero value
// is not valid: [Open.Append] needs AS and ID.
type Open struct {
	AS       uint32     // of the capability for four bytes, else of the header
	HoldTime uint16     // seconds; 0: no KEEPALIVE
	ID       netip.Addr // BGP identifier

	Families         []Family // none: IPv4 unicast only
	RouteRefresh     bool
	EnhancedRefresh  bool
	ExtendedMessages bool
	AS4              bool
	AddPath          []AddPath
	PathsLimits      []PathsLimit
	GracefulRestart  *GracefulRestart // nil: not offered

	// Other holds the codes of unknown capabilities, Ignored the number of malformed ones.
	Other   []uint8
	Ignored int
}

// AddPath is an offer of path identifiers in a family (RFC 7911, section 4).
type AddPath struct {
	Family        Family
	Send, Receive bool
}

// PathsLimit is the number of paths per prefix that a speaker accepts in a family.
type PathsLimit struct {
	Family Family
	Limit  uint16 // never 0: 0 means no limit and is left out
}

// GracefulRestart is the capability of RFC 4724, section 3.
type GracefulRestart struct {
	Restarted    bool   // R: the speaker has restarted
	Notification bool   // N (RFC 8538)
	Time         uint16 // seconds, at most 4,095
	Families     []GracefulFamily
}

// GracefulFamily is a family of [GracefulRestart].
type GracefulFamily struct {
	Family    Family
	Preserved bool // F: forwarding state survived
}

// Limit returns the number of paths per prefix that the speaker accepts in a family: limit, or less
// by the capability for limits, and 1 without an offer to receive path identifiers.
func (o *Open) Limit(f Family, limit uint16) uint16 {
	receives := false
	for _, a := range o.AddPath {
		receives = receives || a.Family == f && a.Receive
	}
	if !receives {
		return min(limit, 1)
	}
	for _, l := range o.PathsLimits {
		if l.Family == f {
			limit = min(limit, l.Limit)
		}
	}
	return limit
}

// HasFamily reports whether the speaker offers a family.
func (o *Open) HasFamily(f Family) bool {
	for _, have := range o.Families {
		if have == f {
			return true
		}
	}
	return len(o.Families) == 0 && f == IPv4Unicast
}

// Subcodes of the NOTIFICATION for an OPEN (RFC 4271, section 6.2).
const (
	openUnspecific         = 0
	openUnsupportedVersion = 1
	openBadPeerAS          = 2
	openBadIdentifier      = 3
	openUnsupportedOption  = 4
	openBadHoldTime        = 6
)

func openError(subcode uint8, offset int, format string, args ...any) error {
	return &MessageError{codeOpen, subcode, offset, fmt.Sprintf(format, args...)}
}

// ParseOpen decodes the body of an OPEN. The error is a [*MessageError]. A malformed capability is
// ignored and counted, since the session works without it. Of several values for a family the last
// counts.
func ParseOpen(body []byte) (o Open, err error) {
	if len(body) < 10 {
		return o, openError(openUnspecific, 0, "an OPEN of %d bytes is too short", len(body))
	}
	if body[0] != 4 {
		return o, openError(openUnsupportedVersion, 0, "version %d is not 4", body[0])
	}
	o.AS, o.HoldTime = uint32(binary.BigEndian.Uint16(body[1:])), binary.BigEndian.Uint16(body[3:])
	o.ID = netip.AddrFrom4([4]byte(body[5:]))
	if o.HoldTime == 1 || o.HoldTime == 2 {
		return o, openError(openBadHoldTime, 3, "a hold time of %d s is below 3 s", o.HoldTime)
	}
	if o.ID == netip.IPv4Unspecified() {
		return o, openError(openBadIdentifier, 5, "the BGP identifier is 0")
	}
	if err := o.parseParameters(body); err != nil {
		return o, err
	}
	if o.AS == 0 { // RFC 7607
		return o, openError(openBadPeerAS, 1, "the AS number is 0")
	}
	return o, nil
}

// parseParameters decodes the optional parameters, also in extended form (RFC 9072).
func (o *Open) parseParameters(body []byte) error {
	at, length, head := 10, int(body[9]), 2
	if length != 0 && len(body) > 10 && body[10] == 255 {
		if len(body) < 13 {
			return openError(openUnspecific, 10, "the extended length is cut off")
		}
		at, length, head = 13, int(binary.BigEndian.Uint16(body[11:])), 3
	}
	if length != len(body)-at {
		return openError(openUnspecific, 9, "optional parameters of %d bytes in %d bytes", length, len(body)-at)
	}
	for at < len(body) {
		rest := body[at:]
		if len(rest) < head {
			return openError(openUnspecific, at, "an optional parameter is cut off")
		}
		size := int(rest[1])
		if head == 3 {
			size = int(binary.BigEndian.Uint16(rest[1:]))
		}
		if size > len(rest)-head {
			return openError(openUnspecific, at, "an optional parameter of %d bytes exceeds the remaining %d", size, len(rest)-head)
		}
		if rest[0] != 2 {
			return openError(openUnsupportedOption, at, "optional parameter %d is unsupported", rest[0])
		}
		if err := o.parseCapabilities(rest[head:head+size], at+head); err != nil {
			return err
		}
		at += head + size
	}
	return nil
}

func (o *Open) parseCapabilities(b []byte, at int) error {
	for len(b) > 0 {
		if len(b) < 2 || int(b[1]) > len(b)-2 {
			return openError(openUnspecific, at, "a capability exceeds its parameter")
		}
		size := 2 + int(b[1])
		if !o.take(b[0], b[2:size]) {
			o.Ignored++
		}
		b, at = b[size:], at+size
	}
	return nil
}

func familyOf(b []byte) Family { return Family{binary.BigEndian.Uint16(b), b[2]} }

// take decodes a capability. It returns false for a malformed one.
func (o *Open) take(code uint8, v []byte) bool {
	switch code {
	case capFamily:
		if len(v) != 4 {
			return false
		}
		if f := (Family{binary.BigEndian.Uint16(v), v[3]}); len(o.Families) == 0 || !o.HasFamily(f) {
			o.Families = append(o.Families, f)
		}
	case capRouteRefresh:
		return setFlag(&o.RouteRefresh, v)
	case capEnhancedRefresh:
		return setFlag(&o.EnhancedRefresh, v)
	case capExtendedMessages:
		return setFlag(&o.ExtendedMessages, v)
	case capAS4:
		if len(v) != 4 {
			return false
		}
		o.AS, o.AS4 = binary.BigEndian.Uint32(v), true
	case capAddPath:
		return o.takeAddPath(v)
	case capPathsLimit:
		return o.takePathsLimit(v)
	case capGracefulRestart:
		return o.takeGracefulRestart(v)
	default:
		o.Other = append(o.Other, code)
	}
	return true
}

// setFlag sets a capability without a value.
func setFlag(into *bool, v []byte) bool {
	*into = *into || len(v) == 0
	return len(v) == 0
}

func (o *Open) takeAddPath(v []byte) bool {
	if len(v)%4 != 0 {
		return false
	}
	sound := true
	for ; len(v) > 0; v = v[4:] {
		if v[3] == 0 || v[3] > 3 {
			sound = false
			continue
		}
		a := AddPath{familyOf(v), v[3]&2 != 0, v[3]&1 != 0}
		o.AddPath = replace(o.AddPath, a, func(b AddPath) bool { return b.Family == a.Family })
	}
	return sound
}

func (o *Open) takePathsLimit(v []byte) bool {
	if len(v)%5 != 0 {
		return false
	}
	for ; len(v) > 0; v = v[5:] {
		l := PathsLimit{familyOf(v), binary.BigEndian.Uint16(v[3:])}
		if l.Limit == 0 {
			continue
		}
		o.PathsLimits = replace(o.PathsLimits, l, func(b PathsLimit) bool { return b.Family == l.Family })
	}
	return true
}

func (o *Open) takeGracefulRestart(v []byte) bool {
	if len(v) < 2 || len(v)%4 != 2 {
		return false
	}
	g := &GracefulRestart{Restarted: v[0]&0x80 != 0, Notification: v[0]&0x40 != 0, Time: binary.BigEndian.Uint16(v) & 0xfff}
	for v = v[2:]; len(v) > 0; v = v[4:] {
		g.Families = append(g.Families, GracefulFamily{familyOf(v), v[3]&0x80 != 0})
	}
	o.GracefulRestart = g
	return true
}

// replace replaces the element that is the same, or appends it.
func replace[T any](all []T, with T, same func(T) bool) []T {
	for i := range all {
		if same(all[i]) {
			all[i] = with
			return all
		}
	}
	return append(all, with)
}

// Append appends the body of an OPEN to dst. AS numbers above 65,535 need AS4. Above 255 bytes of
// capabilities it uses the extended form of RFC 9072.
func (o *Open) Append(dst []byte) []byte {
	as := uint16(asTrans)
	if o.AS < 1<<16 {
		as = uint16(o.AS)
	}
	dst = append(dst, 4)
	dst = binary.BigEndian.AppendUint16(dst, as)
	dst = binary.BigEndian.AppendUint16(dst, o.HoldTime)
	id := o.ID.As4()
	dst = append(dst, id[:]...)
	capabilities := o.appendCapabilities(nil)
	switch n := len(capabilities); {
	case n == 0:
		return append(dst, 0)
	case n <= 253:
		dst = append(dst, byte(n+2), 2, byte(n))
	default:
		dst = append(dst, 255, 255)
		dst = binary.BigEndian.AppendUint16(dst, uint16(n+3))
		dst = append(dst, 2)
		dst = binary.BigEndian.AppendUint16(dst, uint16(n))
	}
	return append(dst, capabilities...)
}

func appendFamily(dst []byte, f Family) []byte {
	return append(binary.BigEndian.AppendUint16(dst, f.AFI), f.SAFI)
}

func (o *Open) appendCapabilities(dst []byte) []byte {
	for _, f := range o.Families {
		dst = append(dst, capFamily, 4, byte(f.AFI>>8), byte(f.AFI), 0, f.SAFI)
	}
	for _, c := range []struct {
		code uint8
		have bool
	}{{capRouteRefresh, o.RouteRefresh}, {capExtendedMessages, o.ExtendedMessages}, {capEnhancedRefresh, o.EnhancedRefresh}} {
		if c.have {
			dst = append(dst, c.code, 0)
		}
	}
	if g := o.GracefulRestart; g != nil {
		flags := bit(g.Restarted, 0x8000) | bit(g.Notification, 0x4000)
		dst = append(dst, capGracefulRestart, byte(2+4*len(g.Families)))
		dst = binary.BigEndian.AppendUint16(dst, uint16(flags)|g.Time&0xfff)
		for _, f := range g.Families {
			dst = append(appendFamily(dst, f.Family), byte(bit(f.Preserved, 0x80)))
		}
	}
	if o.AS4 {
		dst = binary.BigEndian.AppendUint32(append(dst, capAS4, 4), o.AS)
	}
	if len(o.AddPath) > 0 {
		dst = append(dst, capAddPath, byte(4*len(o.AddPath)))
		for _, a := range o.AddPath {
			dst = append(appendFamily(dst, a.Family), byte(bit(a.Send, 2)|bit(a.Receive, 1)))
		}
	}
	if len(o.PathsLimits) > 0 {
		dst = append(dst, capPathsLimit, byte(5*len(o.PathsLimits)))
		for _, l := range o.PathsLimits {
			dst = binary.BigEndian.AppendUint16(appendFamily(dst, l.Family), l.Limit)
		}
	}
	return dst
}

func bit(set bool, value int) int {
	if set {
		return value
	}
	return 0
}
