// SPDX-License-Identifier: Apache-2.0

package flower

import (
	"encoding/binary"
	"net/netip"

	"golang.org/x/sys/unix"
)

var native, network = binary.NativeEndian, binary.BigEndian

// Attributes (linux/pkt_cls.h, linux/tc_act/*.h).
const (
	keyEthDst, keyEthDstMask      = 4, 5
	keyEthType                    = 8
	keyIPProto                    = 9
	keyIPv4Src, keyIPv4SrcMask    = 10, 11
	keyIPv4Dst, keyIPv4DstMask    = 12, 13
	keyIPv6Src, keyIPv6SrcMask    = 14, 15
	keyIPv6Dst, keyIPv6DstMask    = 16, 17
	keyFlags                      = 22
	keyVLANID, keyVLANEthType     = 23, 25
	keyTTL, keyTTLMask            = 75, 76
	flowerAct                     = 3
	tcaKind, tcaOptions, tcaChain = 1, 2, 11

	typeIPv4, typeIPv6, typeVLAN = 0x0800, 0x86dd, 0x8100
	clsactIngress                = 0xfffffff2

	actOK, actPipe, actStolen = 0, 3, 4
	gotoChain                 = 0x20000000
	actKind, actOptions       = 1, 2
	chainMask                 = 0x0fffffff
)

// attribute appends an attribute.
func attribute(b []byte, kind uint16, value []byte) []byte {
	b = native.AppendUint16(native.AppendUint16(b, uint16(4+len(value))), kind)
	b = append(b, value...)
	for len(b)%4 != 0 {
		b = append(b, 0)
	}
	return b
}

// attribute32 appends an attribute with a word in host byte order.
func attribute32(b []byte, kind uint16, x uint32) []byte {
	return native.AppendUint32(native.AppendUint16(native.AppendUint16(b, 8), kind), x)
}

// nested appends an attribute; f appends its value.
func nested(b []byte, kind uint16, f func([]byte) []byte) []byte {
	at := len(b)
	b = f(native.AppendUint16(native.AppendUint16(b, 0), kind|unix.NLA_F_NESTED))
	native.PutUint16(b[at:], uint16(len(b)-at))
	return b
}

func word(x uint32) []byte  { return native.AppendUint32(nil, x) }
func short(x uint16) []byte { return network.AppendUint16(nil, x) }

// etherType returns the EtherType of a rule's packets.
func (r *Rule) etherType() uint16 {
	if r.IPv6 {
		return typeIPv6
	}
	return typeIPv4
}

// encode appends the request for a filter.
func (r *Rule) encode(b []byte, device int, kind, flags uint16, mode uint32) []byte {
	at := len(b)
	b = append(b, make([]byte, unix.SizeofNlMsghdr)...)
	outer := r.etherType()
	if r.Tagged {
		outer = typeVLAN
	}
	for _, field := range [...]uint32{0, uint32(device), r.Handle, clsactIngress, uint32(r.Priority)<<16 | uint32(outer>>8|outer<<8)} {
		b = native.AppendUint32(b, field) // struct tcmsg
	}
	b = attribute32(b, tcaChain, r.Chain)
	b = attribute(b, tcaKind, []byte("flower\x00"))
	if kind == unix.RTM_NEWTFILTER {
		b = nested(b, tcaOptions, func(b []byte) []byte { return r.options(b, outer, mode) })
	}
	native.PutUint32(b[at:], uint32(len(b)-at))
	native.PutUint16(b[at+4:], kind)
	native.PutUint16(b[at+6:], flags|unix.NLM_F_REQUEST)
	return b
}

func (r *Rule) options(b []byte, outer uint16, mode uint32) []byte {
	b = attribute32(b, keyFlags, mode)
	b = attribute(b, keyEthType, short(outer))
	if r.Tagged {
		b = attribute(b, keyVLANEthType, short(r.etherType()))
		if r.VLAN != 0 {
			b = attribute(b, keyVLANID, native.AppendUint16(nil, r.VLAN))
		}
	}
	if r.To != [6]byte{} {
		b = attribute(attribute(b, keyEthDst, r.To[:]), keyEthDstMask, []byte{255, 255, 255, 255, 255, 255})
	}
	if r.Protocol >= 0 {
		b = attribute(b, keyIPProto, []byte{byte(r.Protocol)})
	}
	if r.Expiring {
		b = attribute(attribute(b, keyTTL, []byte{0}), keyTTLMask, []byte{0xfe})
	}
	b = address(b, r.Dst, keyIPv4Dst, keyIPv6Dst)
	b = address(b, r.Src, keyIPv4Src, keyIPv6Src)
	return nested(b, flowerAct, func(b []byte) []byte { return r.actions(b, mode) })
}

// address appends the match of a prefix; the attribute of the mask follows that of the address.
func address(b []byte, p netip.Prefix, four, six uint16) []byte {
	if p.Bits() <= 0 {
		return b
	}
	kind := four
	if p.Addr().Is6() {
		kind = six
	}
	var mask [16]byte
	for i := range p.Bits() {
		mask[i/8] |= 0x80 >> (i % 8)
	}
	at := p.Masked().Addr()
	if at.Is6() {
		sixteen := at.As16()
		return attribute(attribute(b, kind, sixteen[:]), kind+1, mask[:])
	}
	quad := at.As4()
	return attribute(attribute(b, kind, quad[:]), kind+1, mask[:4])
}
