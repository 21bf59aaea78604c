// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"encoding/binary"
	"net/netip"
)

// Outbound is the encoding of the UPDATEs of a session.
type Outbound struct {
	Coding
	Max int // bytes of a message: MaxMessage or MaxExtendedMessage
}

// Target is a prefix with its path identifier, which sessions without identifiers ignore.
type Target struct {
	Prefix netip.Prefix
	ID     uint32
}

// maxReach is the size of an MP_REACH_NLRI for one IPv6 prefix with two next hops, in bytes.
const maxReach = 4 + 5 + 32 + 4 + 17

// Fits reports whether a message has space for one prefix with these stored attributes. The bound
// is conservative.
func (o *Outbound) Fits(attrs Attrs) bool {
	size := len(attrs)
	if !o.AS4 {
		size = 2*size + 16 // AS4_PATH and AS4_AGGREGATOR beside their short forms
	}
	return HeaderSize+4+size+maxReach <= o.Max
}

// Withdraw appends UPDATEs to dst that withdraw routes of a family.
func (o *Outbound) Withdraw(dst []byte, f Family, routes []Target) []byte {
	for len(routes) > 0 {
		start := len(dst)
		dst = begin(dst, TypeUpdate)
		if f == IPv4Unicast {
			dst = append(dst, 0, 0)
			at := len(dst)
			dst, routes = o.appendTargets(dst, f, routes, o.Max-2-(at-start))
			binary.BigEndian.PutUint16(dst[at-2:], uint16(len(dst)-at))
			dst = append(dst, 0, 0)
		} else {
			dst = append(dst, 0, 0, 0, 0, FlagOptional|FlagExtended, byte(AttrMPUnreach), 0, 0, byte(f.AFI>>8), byte(f.AFI), f.SAFI)
			at := len(dst) - 3
			dst, routes = o.appendTargets(dst, f, routes, o.Max-(len(dst)-start))
			binary.BigEndian.PutUint16(dst[at-2:], uint16(len(dst)-at))
			binary.BigEndian.PutUint16(dst[start+HeaderSize+2:], uint16(len(dst)-start-HeaderSize-4))
		}
		dst = finish(dst, start)
	}
	return dst
}

// Announce appends UPDATEs to dst that announce routes of a family with the same stored attributes,
// for which [Outbound.Fits] is true. They have no LOCAL_PREF, ORIGINATOR_ID and CLUSTER_LIST; AS
// path and next hop are unchanged, as a route server sends them (RFC 7947). MP_REACH_NLRI is the
// first attribute (RFC 7606, section 5.1): a fault of another one then withdraws its routes only.
func (o *Outbound) Announce(dst []byte, f Family, attrs Attrs, routes []Target) []byte {
	view, _ := attrs.View()
	var scratch [512]byte
	sent := o.appendAttrs(scratch[:0], attrs, view.NextHop, f)
	for len(routes) > 0 {
		start := len(dst)
		dst = append(begin(dst, TypeUpdate), 0, 0, 0, 0)
		body := len(dst)
		if f == IPv4Unicast {
			dst = append(dst, sent...)
			binary.BigEndian.PutUint16(dst[body-2:], uint16(len(dst)-body))
			dst, routes = o.appendTargets(dst, f, routes, o.Max-(len(dst)-start))
		} else {
			dst = append(dst, FlagOptional|FlagExtended, byte(AttrMPReach), 0, 0, byte(f.AFI>>8), byte(f.AFI), f.SAFI)
			at := len(dst) - 3
			hop, _ := attrs.Get(AttrMPReach)
			dst = append(append(dst, hop...), 0)
			dst, routes = o.appendTargets(dst, f, routes, o.Max-(len(dst)-start)-len(sent))
			binary.BigEndian.PutUint16(dst[at-2:], uint16(len(dst)-at))
			dst = append(dst, sent...)
			binary.BigEndian.PutUint16(dst[body-2:], uint16(len(dst)-body))
		}
		dst = finish(dst, start)
	}
	return dst
}

// appendTargets appends as many routes as left bytes have space for and returns the others.
func (o *Outbound) appendTargets(dst []byte, f Family, routes []Target, left int) ([]byte, []Target) {
	end := len(dst) + left
	for i, r := range routes {
		bytes := (r.Prefix.Bits() + 7) / 8
		size := 1 + bytes
		if o.addPath(f) {
			size += 4
		}
		if len(dst)+size > end {
			return dst, routes[i:]
		}
		if o.addPath(f) {
			dst = binary.BigEndian.AppendUint32(dst, r.ID)
		}
		dst = append(dst, byte(r.Prefix.Bits()))
		if f == IPv4Unicast {
			addr := r.Prefix.Addr().As4()
			dst = append(dst, addr[:bytes]...)
		} else {
			addr := r.Prefix.Addr().As16()
			dst = append(dst, addr[:bytes]...)
		}
	}
	return dst, nil
}

// appendAttrs appends the attributes other than MP_REACH_NLRI as sent to a member. For IPv4, hop
// becomes the NEXT_HOP.
func (o *Outbound) appendAttrs(dst []byte, a Attrs, hop netip.Addr, f Family) []byte {
	if f != IPv4Unicast {
		hop = netip.Addr{}
	}
	for offset := 0; offset < len(a); {
		attr, next, err := a.cut(offset)
		if err != nil {
			break
		}
		if hop.IsValid() && attr.Type > AttrNextHop {
			dst, hop = appendNextHop(dst, hop), netip.Addr{}
		}
		dst = o.appendSent(dst, attr, a[offset:next])
		offset = next
	}
	if hop.IsValid() {
		dst = appendNextHop(dst, hop)
	}
	return dst
}

func appendNextHop(dst []byte, hop netip.Addr) []byte {
	dst = append(dst, FlagTransitive, byte(AttrNextHop), 4)
	addr := hop.As4()
	return append(dst, addr[:]...)
}

func (o *Outbound) appendSent(dst []byte, attr Attr, raw []byte) []byte {
	switch attr.Type {
	case AttrNextHop, AttrMPReach, AttrLocalPref, AttrOriginatorID, AttrClusterList:
		return dst
	case AttrASPath:
		if !o.AS4 {
			return appendShortPath(dst, ASPath(attr.Value))
		}
	case AttrAggregator:
		if !o.AS4 && len(attr.Value) == 8 {
			return appendShortAggregator(dst, attr)
		}
	}
	if flagsOf[attr.Type] == 0 { // unknown: RFC 4271, section 5
		if attr.Flags&FlagTransitive == 0 {
			return dst
		}
		at := len(dst)
		dst = append(dst, raw...)
		dst[at] |= FlagPartial
		return dst
	}
	return append(dst, raw...)
}

// appendShortPath appends an AS_PATH with AS numbers of two bytes, and an AS4_PATH if a number has
// four (RFC 6793, section 4.2.2).
func appendShortPath(dst []byte, path ASPath) []byte {
	dst = append(dst, FlagTransitive|FlagExtended, byte(AttrASPath), 0, 0)
	start, large := len(dst), false
	for rest := path; ; {
		kind, ases, after, ok := rest.segment()
		if !ok {
			break
		}
		dst = append(dst, kind, byte(len(ases)/4))
		for ; len(ases) >= 4; ases = ases[4:] {
			as := binary.BigEndian.Uint32(ases)
			if as >= 1<<16 {
				as, large = asTrans, true
			}
			dst = binary.BigEndian.AppendUint16(dst, uint16(as))
		}
		rest = after
	}
	binary.BigEndian.PutUint16(dst[start-2:], uint16(len(dst)-start))
	if !large {
		return dst
	}
	dst = append(dst, FlagOptional|FlagTransitive|FlagExtended, byte(AttrAS4Path), 0, 0)
	start = len(dst)
	for rest := path; ; {
		kind, _, after, ok := rest.segment()
		if !ok {
			break
		}
		if kind == ASSequence || kind == ASSet {
			dst = append(dst, rest[:len(rest)-len(after)]...)
		}
		rest = after
	}
	binary.BigEndian.PutUint16(dst[start-2:], uint16(len(dst)-start))
	return dst
}

func appendShortAggregator(dst []byte, attr Attr) []byte {
	as := binary.BigEndian.Uint32(attr.Value)
	if as < 1<<16 {
		dst = append(dst, attr.Flags&^FlagExtended, byte(AttrAggregator), 6)
		return append(dst, attr.Value[2:]...)
	}
	dst = append(dst, attr.Flags&^FlagExtended, byte(AttrAggregator), 6, asTrans>>8, asTrans&0xff)
	dst = append(dst, attr.Value[4:]...)
	dst = append(dst, attr.Flags&^FlagExtended, byte(AttrAS4Aggregator), 8)
	return append(dst, attr.Value...)
}
