// SPDX-License-Identifier: Apache-2.0

package routing

import (
	"encoding/binary"
	"net/netip"
	"strings"

	"golang.org/x/sys/unix"
)

var native, network = binary.NativeEndian, binary.BigEndian

// attributes calls f for each attribute of a message, up to a truncated one.
func attributes(b []byte, f func(kind uint16, value []byte)) {
	for len(b) >= unix.SizeofRtAttr {
		length := int(native.Uint16(b))
		if length < unix.SizeofRtAttr || length > len(b) {
			return
		}
		f(native.Uint16(b[2:])&^(unix.NLA_F_NESTED|unix.NLA_F_NET_BYTEORDER), b[unix.SizeofRtAttr:length])
		b = b[min(len(b), (length+3)&^3):]
	}
}

func number(b []byte) uint32 {
	switch len(b) {
	case 1:
		return uint32(b[0])
	case 2:
		return uint32(native.Uint16(b))
	case 4:
		return native.Uint32(b)
	}
	return 0
}

func text(b []byte) string { return strings.TrimRight(string(b), "\x00") }

func address(b []byte) netip.Addr {
	a, _ := netip.AddrFromSlice(b)
	return a
}

func mac(b []byte) (m [6]byte) {
	if len(b) == len(m) {
		copy(m[:], b)
	}
	return m
}

// decode converts a message to an event; ok is false if forwarding does not depend on it.
func (d *decoder) decode(kind uint16, flags uint16, b []byte) (e *Event, ok bool) {
	e = &d.event
	*e = Event{}
	switch kind {
	case unix.RTM_NEWLINK, unix.RTM_DELLINK:
		e.Kind, e.Gone = LinkEvent, kind == unix.RTM_DELLINK
		return e, d.link(b)
	case unix.RTM_NEWADDR, unix.RTM_DELADDR:
		e.Kind, e.Gone = AddressEvent, kind == unix.RTM_DELADDR
		return e, d.address(b)
	case unix.RTM_NEWNEIGH, unix.RTM_DELNEIGH:
		e.Kind, e.Gone = NeighborEvent, kind == unix.RTM_DELNEIGH
		return e, d.neighbor(b)
	case unix.RTM_NEWROUTE, unix.RTM_DELROUTE:
		e.Kind, e.Gone = RouteEvent, kind == unix.RTM_DELROUTE
		e.Replace, e.Append = flags&unix.NLM_F_REPLACE != 0, flags&unix.NLM_F_APPEND != 0
		return e, d.route(b)
	case unix.RTM_NEWRULE, unix.RTM_DELRULE:
		e.Kind, e.Gone = RuleEvent, kind == unix.RTM_DELRULE
		return e, d.rule(b)
	case unix.RTM_NEWNETCONF, unix.RTM_DELNETCONF:
		e.Kind = SettingEvent
		return e, true
	case unix.RTM_NEWNEXTHOP, unix.RTM_DELNEXTHOP:
		e.Kind = ObjectEvent
		return e, true
	}
	return e, false
}

// decoder holds buffers reused between messages.
type decoder struct {
	event Event
	hops  []Hop
}

func (d *decoder) link(b []byte) bool {
	if len(b) < unix.SizeofIfInfomsg || b[0] != unix.AF_UNSPEC {
		return false // a bridge port, in AF_BRIDGE
	}
	l := &d.event.Link
	flags := native.Uint32(b[8:])
	l.Index = int(int32(native.Uint32(b[4:])))
	l.Up, l.Lower = flags&unix.IFF_UP != 0, flags&unix.IFF_LOWER_UP != 0
	l.Loopback, l.Ethernet = flags&unix.IFF_LOOPBACK != 0, native.Uint16(b[2:]) == unix.ARPHRD_ETHER
	attributes(b[unix.SizeofIfInfomsg:], func(kind uint16, value []byte) {
		switch kind {
		case unix.IFLA_IFNAME:
			l.Name = text(value)
		case unix.IFLA_ADDRESS:
			l.MAC = mac(value)
		case unix.IFLA_MTU:
			l.MTU = number(value)
		case unix.IFLA_MASTER:
			l.Master = int(number(value))
		case unix.IFLA_LINK:
			l.Parent = int(number(value))
		case unix.IFLA_LINK_NETNSID:
			l.Elsewhere = true
		case unix.IFLA_LINKINFO:
			attributes(value, l.kind)
		case unix.IFLA_AF_SPEC:
			attributes(value, l.settings)
		}
	})
	if l.Kind != "vlan" {
		l.VLAN, l.Protocol = 0, 0
	}
	return l.Index > 0 && l.Name != ""
}

// kind decodes IFLA_LINKINFO: the kind precedes its data.
func (l *Link) kind(kind uint16, value []byte) {
	switch {
	case kind == unix.IFLA_INFO_KIND:
		l.Kind = text(value)
	case kind == unix.IFLA_INFO_DATA && l.Kind == "vlan":
		attributes(value, func(kind uint16, value []byte) {
			switch {
			case kind == unix.IFLA_VLAN_ID:
				l.VLAN = uint16(number(value))
			case kind == unix.IFLA_VLAN_PROTOCOL && len(value) == 2:
				l.Protocol = network.Uint16(value)
			}
		})
	}
}

// Indices in the kernel's arrays of settings (linux/ip.h, which starts at 1, and linux/ipv6.h).
const (
	forwarding4 = 0
	rpFilter4   = 7
	mtu6        = 2

	iflaInetConf  = 1
	iflaInet6Conf = 2
)

func (l *Link) settings(family uint16, value []byte) {
	at := func(b []byte, i int) uint32 {
		if len(b) < 4*i+4 {
			return 0
		}
		return native.Uint32(b[4*i:])
	}
	attributes(value, func(kind uint16, b []byte) {
		switch {
		case family == unix.AF_INET && kind == iflaInetConf:
			l.Forward4, l.RPFilter = at(b, forwarding4) != 0, uint8(at(b, rpFilter4))
		case family == unix.AF_INET6 && kind == iflaInet6Conf:
			l.MTU6 = at(b, mtu6)
		}
	})
}

func (d *decoder) address(b []byte) bool {
	if len(b) < unix.SizeofIfAddrmsg {
		return false
	}
	a := &d.event.Address
	a.Link = int(native.Uint32(b[4:]))
	var at netip.Addr
	attributes(b[unix.SizeofIfAddrmsg:], func(kind uint16, value []byte) {
		switch kind {
		case unix.IFA_ADDRESS:
			at = address(value)
		case unix.IFA_LOCAL:
			a.Local = address(value)
		}
	})
	if !a.Local.IsValid() {
		a.Local = at // of IPv6
	}
	a.At = netip.PrefixFrom(at, int(b[1]))
	return a.At.IsValid()
}

func (d *decoder) neighbor(b []byte) bool {
	if len(b) < unix.SizeofNdMsg || b[0] != unix.AF_INET && b[0] != unix.AF_INET6 || b[10]&unix.NTF_PROXY != 0 {
		return false
	}
	n := &d.event.Neighbor
	n.Link, n.State = int(native.Uint32(b[4:])), native.Uint16(b[8:])
	attributes(b[unix.SizeofNdMsg:], func(kind uint16, value []byte) {
		switch kind {
		case unix.NDA_DST:
			n.At = address(value)
		case unix.NDA_LLADDR:
			n.MAC = mac(value)
		}
	})
	return n.At.IsValid() && !n.At.IsMulticast()
}
