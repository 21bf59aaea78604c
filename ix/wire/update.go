// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"encoding/binary"
	"fmt"
	"net/netip"
)

// Coding is the part of a session's capabilities that decides the encoding of an UPDATE.
type Coding struct {
	AS4         bool // AS numbers of four bytes (RFC 6793)
	AddPathIPv4 bool // path identifiers (RFC 7911)
	AddPathIPv6 bool
}

func (c Coding) addPath(f Family) bool {
	return f == IPv4Unicast && c.AddPathIPv4 || f == IPv6Unicast && c.AddPathIPv6
}

// MessageError is a fault that ends a session, with the code and subcode of the NOTIFICATION (RFC
// 4271, section 4.5).
type MessageError struct {
	Code, Subcode uint8
	Offset        int // of the fault in the message's body, in bytes
	Reason        string
}

func (e *MessageError) Error() string { return e.Reason }

// Codes and subcodes of NOTIFICATION.
const (
	codeHeader = 1
	codeOpen   = 2
	codeUpdate = 3

	headerNotSynchronized = 1
	headerBadLength       = 2
	headerBadType         = 3

	updateAttributeList  = 1
	updateOptionalAttr   = 9
	updateInvalidNetwork = 10
)

// Update is a decoded UPDATE. Its slices share the memory of the message. The zero value is an
// End-of-RIB of IPv4 unicast (RFC 4724, section 2).
type Update struct {
	Withdrawn NLRI // IPv4 unicast
	Announced NLRI // IPv4 unicast, next hop in NEXT_HOP
	Unreach   NLRI // of MP_UNREACH_NLRI
	Reach     NLRI // of MP_REACH_NLRI

	ReachFamily   Family // zero without MP_REACH_NLRI
	UnreachFamily Family // zero without MP_UNREACH_NLRI

	// Fault is the first reason to treat the announced routes as withdrawn (RFC 7606), or nil.
	Fault *AttrError
	// Discarded is the number of attributes to ignore: repeated ones, and faulty ones without
	// influence on the choice of routes.
	Discarded int

	attrs   Attrs
	hop     []byte // of MP_REACH_NLRI
	as4     bool
	discard [4]uint64 // by type
}

// ParseUpdate decodes the body of an UPDATE (RFC 4271, section 4.3), without the header of 19
// bytes. Its error ends the session; u.Fault does not.
//
// Routes of families other than IPv4 and IPv6 unicast are ignored.
func ParseUpdate(body []byte, c Coding) (u Update, err error) {
	err = u.Parse(body, c)
	return u, err
}

// Parse sets u to a decoded UPDATE; see [ParseUpdate]. It does not allocate. The error is a
// [*MessageError].
func (u *Update) Parse(body []byte, c Coding) error {
	*u = Update{as4: c.AS4}
	if len(body) < 4 {
		return updateError(updateAttributeList, 0, "an UPDATE of %d bytes is too short", len(body))
	}
	withdrawn := int(binary.BigEndian.Uint16(body))
	if withdrawn > len(body)-4 {
		return updateError(updateAttributeList, 0, "withdrawn routes of %d bytes exceed the message", withdrawn)
	}
	start := 4 + withdrawn
	length := int(binary.BigEndian.Uint16(body[start-2:]))
	if length > len(body)-start {
		return updateError(updateAttributeList, start-2, "path attributes of %d bytes exceed the message", length)
	}
	u.attrs = Attrs(body[start : start+length : start+length])
	u.Withdrawn = NLRI{body[2 : 2+withdrawn], 4, c.AddPathIPv4}
	u.Announced = NLRI{body[start+length:], 4, c.AddPathIPv4}
	if at, reason := u.Withdrawn.check(); reason != "" {
		return updateError(updateInvalidNetwork, 2+at, "withdrawn routes: %s", reason)
	}
	if at, reason := u.Announced.check(); reason != "" {
		return updateError(updateInvalidNetwork, start+length+at, "NLRI: %s", reason)
	}
	return u.parseAttrs(start, c)
}

func updateError(subcode uint8, offset int, format string, args ...any) error {
	return &MessageError{codeUpdate, subcode, offset, fmt.Sprintf(format, args...)}
}

// parseAttrs checks the attributes, which start at an offset of the body.
func (u *Update) parseAttrs(start int, c Coding) error {
	var seen [4]uint64
	for offset := 0; offset < len(u.attrs); {
		attr, next, err := u.attrs.cut(offset)
		if err != nil {
			u.faulty(err.(*AttrError))
			u.attrs = u.attrs[:offset]
			break
		}
		bit, word := uint64(1)<<(attr.Type%64), attr.Type/64
		repeated := seen[word]&bit != 0
		seen[word] |= bit
		switch {
		case attr.Type == AttrMPReach || attr.Type == AttrMPUnreach:
			if repeated {
				return updateError(updateAttributeList, start+offset, "%v is repeated", attr.Type)
			}
			if err := u.parseMP(attr, start, c); err != nil {
				return err
			}
		case repeated:
			u.Discarded++
		default:
			u.check(attr)
		}
		offset = next
	}
	if u.Fault == nil {
		u.requireMandatory(seen[0])
	}
	return nil
}

// requireMandatory checks the presence of the well-known mandatory attributes (RFC 7606, section
// 3 d).
func (u *Update) requireMandatory(seen uint64) {
	if u.Announced.Empty() && u.Reach.Empty() {
		return
	}
	needed := []AttrType{AttrOrigin, AttrASPath, AttrNextHop}
	if u.Announced.Empty() {
		needed = needed[:2]
	}
	for _, t := range needed {
		if seen>>t&1 == 0 {
			u.Fault = &AttrError{t, len(u.attrs), "the attribute is missing"}
			return
		}
	}
}

func (u *Update) faulty(fault *AttrError) {
	if u.Fault == nil {
		u.Fault = fault
	}
}

// flagsOf holds the optional and transitive flags of known attributes.
var flagsOf = [256]uint8{
	AttrOrigin: FlagTransitive, AttrASPath: FlagTransitive, AttrNextHop: FlagTransitive, AttrLocalPref: FlagTransitive,
	AttrAtomicAggregate: FlagTransitive, AttrMED: FlagOptional, AttrAggregator: FlagOptional | FlagTransitive,
	AttrCommunities: FlagOptional | FlagTransitive, AttrOriginatorID: FlagOptional, AttrClusterList: FlagOptional,
	AttrMPReach: FlagOptional, AttrMPUnreach: FlagOptional, AttrExtCommunities: FlagOptional | FlagTransitive,
	AttrAS4Path: FlagOptional | FlagTransitive, AttrAS4Aggregator: FlagOptional | FlagTransitive,
	AttrLargeCommunities: FlagOptional | FlagTransitive,
}

// maxShortPath limits an AS_PATH of two-byte numbers and an AS4_PATH, so that their merger fits an
// attribute.
const maxShortPath = 16 << 10

// check applies RFC 7606, sections 3 c and 7, and RFC 8092, section 6, to an attribute.
func (u *Update) check(attr Attr) {
	const kind = FlagOptional | FlagTransitive
	if want := flagsOf[attr.Type]; want != 0 && attr.Flags&kind != want {
		u.faulty(&AttrError{attr.Type, attr.Offset, fmt.Sprintf("flags %#02x instead of %#02x", attr.Flags&kind, want)})
		return
	}
	if flagsOf[attr.Type] == 0 && attr.Flags&FlagOptional == 0 {
		u.faulty(&AttrError{attr.Type, attr.Offset, "a well-known attribute is unknown"})
		return
	}
	n := len(attr.Value)
	switch attr.Type {
	case AttrASPath:
		if at, reason := checkASPath(attr.Value, u.asSize()); reason != "" {
			u.faulty(&AttrError{attr.Type, attr.Offset + at, reason})
		}
		if !u.as4 && n > maxShortPath {
			u.faulty(&AttrError{attr.Type, attr.Offset, fmt.Sprintf("%d bytes are too long for AS numbers of two bytes", n)})
		}
	case AttrAtomicAggregate:
		u.discardIf(attr.Type, n != 0)
	case AttrAggregator:
		u.discardIf(attr.Type, n != 4+u.asSize())
	case AttrAS4Path:
		_, reason := checkASPath(attr.Value, 4)
		u.discardIf(attr.Type, u.as4 || reason != "" || n > maxShortPath)
	case AttrAS4Aggregator:
		u.discardIf(attr.Type, u.as4 || n != 8)
	case AttrOriginatorID:
		if n != 4 {
			u.faulty(attr.lengthFault(4).(*AttrError))
		}
	case AttrClusterList, AttrExtCommunities:
		unit := 4
		if attr.Type == AttrExtCommunities {
			unit = 8
		}
		if n == 0 || n%unit != 0 {
			u.faulty(&AttrError{attr.Type, attr.Offset, fmt.Sprintf("the length is no multiple of %d bytes above 0", unit)})
		}
	default:
		var v View
		if err := v.take(attr); err != nil {
			u.faulty(err.(*AttrError))
		}
	}
}

func (u *Update) asSize() int {
	if u.as4 {
		return 4
	}
	return 2
}

func (u *Update) discardIf(t AttrType, faulty bool) {
	if faulty {
		u.Discarded++
		u.discard[t/64] |= 1 << (t % 64)
	}
}

// parseMP decodes MP_REACH_NLRI or MP_UNREACH_NLRI (RFC 4760, sections 3 and 4). Faults end the
// session, since the routes are unknown (RFC 7606, section 5.3).
func (u *Update) parseMP(attr Attr, start int, c Coding) error {
	v, at := attr.Value, start+attr.Offset
	if len(v) < 3 {
		return updateError(updateOptionalAttr, at, "%v: %d bytes are too short", attr.Type, len(v))
	}
	family := Family{binary.BigEndian.Uint16(v), v[2]}
	if attr.Flags&(FlagOptional|FlagTransitive) != FlagOptional {
		u.faulty(&AttrError{attr.Type, attr.Offset, fmt.Sprintf("flags %#02x instead of %#02x", attr.Flags&0xc0, FlagOptional)})
	}
	if attr.Type == AttrMPUnreach {
		u.UnreachFamily = family
		return u.mpNLRI(&u.Unreach, attr, v[3:], at+3, family, c)
	}
	u.ReachFamily = family
	if len(v) < 5 || int(v[3]) > len(v)-5 {
		return updateError(updateOptionalAttr, at, "%v: the next hop exceeds the attribute", attr.Type)
	}
	u.hop = v[3 : 4+int(v[3])]
	size := family.addrSize()
	if _, ok := storedNextHop(u.hop); size != 0 && !(ok && len(u.hop) > size) {
		return updateError(updateOptionalAttr, at+3, "%v: a next hop of %d bytes does not fit %v", attr.Type, len(u.hop)-1, family)
	}
	head := 5 + int(v[3])
	return u.mpNLRI(&u.Reach, attr, v[head:], at+head, family, c)
}

func (u *Update) mpNLRI(into *NLRI, attr Attr, bytes []byte, at int, family Family, c Coding) error {
	size := family.addrSize()
	if size == 0 {
		return nil
	}
	*into = NLRI{bytes, size, c.addPath(family)}
	if offset, reason := into.check(); reason != "" {
		return updateError(updateOptionalAttr, at+offset, "%v: %s", attr.Type, reason)
	}
	return nil
}

// EndOfRIB returns the family of an End-of-RIB marker (RFC 4724, section 2).
func (u *Update) EndOfRIB() (Family, bool) {
	switch {
	case !u.Withdrawn.Empty() || !u.Announced.Empty():
	case len(u.attrs) == 0:
		return IPv4Unicast, u.Fault == nil
	case u.UnreachFamily != (Family{}):
		value, _ := u.attrs.Get(AttrMPUnreach)
		only := len(u.attrs) == len(value)+3 || len(u.attrs) == len(value)+4 && u.attrs[0]&FlagExtended != 0
		return u.UnreachFamily, only && len(value) == 3 && u.Fault == nil
	}
	return Family{}, false
}

// ReachNextHop returns the next hop of the Reach routes.
func (u *Update) ReachNextHop() netip.Addr {
	hop, _ := storedNextHop(u.hop)
	return hop
}
