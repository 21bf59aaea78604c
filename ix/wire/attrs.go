// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"encoding/binary"
	"fmt"
	"net/netip"
)

// AttrType is the type code of a path attribute (IANA, BGP Path Attributes).
type AttrType uint8

const (
	AttrOrigin           AttrType = 1
	AttrASPath           AttrType = 2
	AttrNextHop          AttrType = 3
	AttrMED              AttrType = 4
	AttrLocalPref        AttrType = 5
	AttrAtomicAggregate  AttrType = 6
	AttrAggregator       AttrType = 7
	AttrCommunities      AttrType = 8
	AttrOriginatorID     AttrType = 9
	AttrClusterList      AttrType = 10
	AttrMPReach          AttrType = 14
	AttrMPUnreach        AttrType = 15
	AttrExtCommunities   AttrType = 16
	AttrAS4Path          AttrType = 17
	AttrAS4Aggregator    AttrType = 18
	AttrLargeCommunities AttrType = 32
)

var attrNames = map[AttrType]string{
	AttrOrigin: "ORIGIN", AttrASPath: "AS_PATH", AttrNextHop: "NEXT_HOP", AttrMED: "MULTI_EXIT_DISC",
	AttrLocalPref: "LOCAL_PREF", AttrAtomicAggregate: "ATOMIC_AGGREGATE", AttrAggregator: "AGGREGATOR",
	AttrCommunities: "COMMUNITIES", AttrOriginatorID: "ORIGINATOR_ID", AttrClusterList: "CLUSTER_LIST",
	AttrMPReach: "MP_REACH_NLRI", AttrMPUnreach: "MP_UNREACH_NLRI", AttrExtCommunities: "EXTENDED_COMMUNITIES",
	AttrAS4Path: "AS4_PATH", AttrAS4Aggregator: "AS4_AGGREGATOR", AttrLargeCommunities: "LARGE_COMMUNITY",
}

func (t AttrType) String() string {
	if name, ok := attrNames[t]; ok {
		return name
	}
	return fmt.Sprintf("attribute %d", uint8(t))
}

// Flags of a path attribute (RFC 4271, section 4.3).
const (
	FlagOptional   = 0x80
	FlagTransitive = 0x40
	FlagPartial    = 0x20
	FlagExtended   = 0x10
)

// Attrs is the raw path attributes of one path in stored form: as on the wire (RFC 4271, section
// 4.3) with AS numbers of four bytes, and MP_REACH_NLRI shortened to the length of the next hop
// and the next hop (RFC 6396, section 4.3.4). Equal bytes mean equal attributes.
type Attrs []byte

// Attr is one attribute of an [Attrs].
type Attr struct {
	Flags  uint8
	Type   AttrType
	Value  []byte
	Offset int // of the value
}

// AttrError is a fault in path attributes.
type AttrError struct {
	Type   AttrType
	Offset int // of the fault in the attributes, in bytes
	Reason string
}

func (e *AttrError) Error() string {
	if e.Type == 0 {
		return e.Reason
	}
	return e.Type.String() + ": " + e.Reason
}

// cut returns the attribute at an offset and the offset of the next one.
func (a Attrs) cut(offset int) (attr Attr, next int, err error) {
	rest := a[offset:]
	if len(rest) < 3 {
		return attr, 0, &AttrError{Offset: offset, Reason: fmt.Sprintf("%d bytes are too short for an attribute", len(rest))}
	}
	attr.Flags, attr.Type = rest[0], AttrType(rest[1])
	head, length := 3, int(rest[2])
	if attr.Flags&FlagExtended != 0 {
		if len(rest) < 4 {
			return attr, 0, &AttrError{attr.Type, offset, "3 bytes are too short for an extended length"}
		}
		head, length = 4, int(binary.BigEndian.Uint16(rest[2:]))
	}
	if length > len(rest)-head {
		return attr, 0, &AttrError{attr.Type, offset, fmt.Sprintf("a length of %d bytes exceeds the remaining %d", length, len(rest)-head)}
	}
	attr.Value, attr.Offset = rest[head:head+length:head+length], offset+head
	return attr, offset + head + length, nil
}

// All iterates over the attributes up to the first fault, which it returns as an error. It does
// not allocate.
func (a Attrs) All(yield func(Attr) bool) error {
	for offset := 0; offset < len(a); {
		attr, next, err := a.cut(offset)
		if err != nil {
			return err
		}
		if !yield(attr) {
			return nil
		}
		offset = next
	}
	return nil
}

// Get returns the value of the first attribute of a type. ok is false if there is none before the
// end or a fault.
func (a Attrs) Get(t AttrType) (value []byte, ok bool) {
	for offset := 0; offset < len(a); {
		attr, next, err := a.cut(offset)
		if err != nil {
			return nil, false
		}
		if attr.Type == t {
			return attr.Value, true
		}
		offset = next
	}
	return nil, false
}

// Origin of a path (RFC 4271, section 4.3).
const (
	OriginIGP        = 0
	OriginEGP        = 1
	OriginIncomplete = 2
)

// View is the decoded form of an [Attrs], made by one pass and without allocation. Its slices
// share the memory of the Attrs. Of several attributes of a type the first counts (RFC 7606,
// section 3 g). The zero value is a path without attributes.
type View struct {
	Origin           uint8 // OriginIncomplete if absent
	HasMED           bool
	HasLocalPref     bool
	MED              uint32
	LocalPref        uint32
	NextHop          netip.Addr // of MP_REACH_NLRI, else of NEXT_HOP; invalid if absent
	ASPath           ASPath
	Communities      Communities
	LargeCommunities LargeCommunities

	long bool // MP_REACH_NLRI is not shortened
}

// View decodes the attributes. The error is an [*AttrError].
func (a Attrs) View() (v View, err error) {
	err = v.Parse(a)
	return v, err
}

// Parse sets v to the decoded form of a. If it returns an [*AttrError], v is incomplete.
func (v *View) Parse(a Attrs) error {
	*v = View{Origin: OriginIncomplete}
	var seen [4]uint64
	for offset := 0; offset < len(a); {
		attr, next, err := a.cut(offset)
		if err != nil {
			return err
		}
		if bit := uint64(1) << (attr.Type % 64); seen[attr.Type/64]&bit == 0 {
			seen[attr.Type/64] |= bit
			if err := v.take(attr); err != nil {
				return err
			}
		}
		offset = next
	}
	return nil
}

func (v *View) take(attr Attr) error {
	value := attr.Value
	switch attr.Type {
	case AttrOrigin:
		if len(value) != 1 || value[0] > OriginIncomplete {
			return attr.fault("ORIGIN has one byte of 0 to 2")
		}
		v.Origin = value[0]
	case AttrASPath:
		v.ASPath = ASPath(value)
		if at, reason := checkASPath(value, 4); reason != "" {
			return &AttrError{attr.Type, attr.Offset + at, reason}
		}
	case AttrNextHop:
		if len(value) != 4 {
			return attr.lengthFault(4)
		}
		if !v.NextHop.IsValid() {
			v.NextHop = netip.AddrFrom4([4]byte(value))
		}
	case AttrMED:
		if len(value) != 4 {
			return attr.lengthFault(4)
		}
		v.MED, v.HasMED = binary.BigEndian.Uint32(value), true
	case AttrLocalPref:
		if len(value) != 4 {
			return attr.lengthFault(4)
		}
		v.LocalPref, v.HasLocalPref = binary.BigEndian.Uint32(value), true
	case AttrCommunities:
		if len(value) == 0 || len(value)%4 != 0 {
			return attr.fault("the length is no multiple of 4 bytes above 0")
		}
		v.Communities = Communities(value)
	case AttrLargeCommunities:
		if len(value) == 0 || len(value)%12 != 0 {
			return attr.fault("the length is no multiple of 12 bytes above 0")
		}
		v.LargeCommunities = LargeCommunities(value)
	case AttrMPReach:
		if isLong(value) {
			value, v.long = value[3:4+int(value[3])], true
		}
		hop, ok := storedNextHop(value)
		if !ok {
			return attr.fault("a next hop has 4, 16 or 32 bytes")
		}
		v.NextHop = hop
	}
	return nil
}

func (attr Attr) fault(reason string) error { return &AttrError{attr.Type, attr.Offset, reason} }

func (attr Attr) lengthFault(want int) error {
	return attr.fault(fmt.Sprintf("%d bytes instead of %d", len(attr.Value), want))
}

// storedNextHop decodes the shortened MP_REACH_NLRI. Of a global and a link-local address it
// returns the global one (RFC 2545, section 3).
func storedNextHop(value []byte) (netip.Addr, bool) {
	if len(value) == 0 || int(value[0]) != len(value)-1 {
		return netip.Addr{}, false
	}
	switch value[0] {
	case 4:
		return netip.AddrFrom4([4]byte(value[1:])), true
	case 16, 32:
		return netip.AddrFrom16([16]byte(value[1:17])), true
	}
	return netip.Addr{}, false
}

// isLong reports whether an MP_REACH_NLRI starts with its address family instead of the length of
// the next hop. RouteViews wrote tables like that.
func isLong(value []byte) bool {
	return len(value) > 4 && value[0] == 0 && int(value[3]) <= len(value)-4
}

// appendShortened appends attributes to dst with a shortened MP_REACH_NLRI.
func appendShortened(dst []byte, a Attrs) []byte {
	for offset := 0; offset < len(a); {
		attr, next, err := a.cut(offset)
		if err != nil {
			return dst
		}
		if attr.Type == AttrMPReach && isLong(attr.Value) {
			hop := attr.Value[3 : 4+int(attr.Value[3])]
			dst = append(dst, attr.Flags&^FlagExtended, byte(AttrMPReach), byte(len(hop)))
			dst = append(dst, hop...)
		} else {
			dst = append(dst, a[offset:next]...)
		}
		offset = next
	}
	return dst
}
