// SPDX-License-Identifier: Apache-2.0

package routing

import (
	"net/netip"

	"golang.org/x/sys/unix"
)

// Flags of a next hop (linux/rtnetlink.h).
const (
	hopDead     = 1
	hopLinkDown = 16

	rtaNextHopID = 30
)

func (d *decoder) route(b []byte) bool {
	if len(b) < unix.SizeofRtMsg || b[0] != unix.AF_INET && b[0] != unix.AF_INET6 {
		return false
	}
	r, flags := &d.event.Route, native.Uint32(b[8:])
	d.hops = d.hops[:0]
	r.TOS, r.Table, r.Protocol, r.Type, r.Cloned = b[3], uint32(b[4]), b[5], b[7], flags&unix.RTM_F_CLONED != 0
	one := Hop{Weight: 1, Dead: flags&(hopDead|hopLinkDown) != 0}
	to, bits := netip.IPv4Unspecified(), int(b[1])
	if b[0] == unix.AF_INET6 {
		to = netip.IPv6Unspecified()
	}
	attributes(b[unix.SizeofRtMsg:], func(kind uint16, value []byte) {
		switch kind {
		case unix.RTA_DST:
			to = address(value)
		case unix.RTA_SRC:
			r.From = netip.PrefixFrom(address(value), int(b[2]))
		case unix.RTA_TABLE:
			r.Table = number(value)
		case unix.RTA_PRIORITY:
			r.Metric = number(value)
		case unix.RTA_METRICS:
			attributes(value, r.metrics)
		case rtaNextHopID:
			r.ObjectID = number(value)
		case unix.RTA_MULTIPATH:
			d.multipath(value)
		default:
			one.attribute(kind, value)
		}
	})
	r.To = netip.PrefixFrom(to, bits)
	if len(d.hops) == 0 && (one.Link != 0 || one.Via.IsValid()) {
		d.hops = append(d.hops, one)
	}
	r.Hops = d.hops
	return r.To.IsValid()
}

func (h *Hop) attribute(kind uint16, value []byte) {
	switch kind {
	case unix.RTA_OIF:
		h.Link = int(number(value))
	case unix.RTA_GATEWAY:
		h.Via = address(value)
	case unix.RTA_VIA:
		if len(value) > 2 {
			h.Via = address(value[2:]) // behind its family
		}
	case unix.RTA_ENCAP_TYPE, unix.RTA_NEWDST:
		h.Encap = true
	}
}

func (r *Route) metrics(kind uint16, value []byte) {
	switch kind {
	case unix.RTAX_MTU:
		r.MTU = number(value)
	case unix.RTAX_LOCK:
		r.Locked = number(value)&(1<<unix.RTAX_MTU) != 0
	}
}

func (d *decoder) multipath(b []byte) {
	for len(b) >= unix.SizeofRtNexthop {
		length := int(native.Uint16(b))
		if length < unix.SizeofRtNexthop || length > len(b) {
			return
		}
		hop := Hop{Weight: int(b[3]) + 1, Link: int(native.Uint32(b[4:])), Dead: b[2]&(hopDead|hopLinkDown) != 0}
		attributes(b[unix.SizeofRtNexthop:length], hop.attribute)
		d.hops = append(d.hops, hop)
		b = b[min(len(b), (length+3)&^3):]
	}
}

// Attributes of all rules that do not match packets.
var harmless = map[uint16]bool{unix.FRA_PAD: true, unix.FRA_PROTOCOL: true, unix.FRA_SUPPRESS_IFGROUP: true}

func (d *decoder) rule(b []byte) bool {
	if len(b) < unix.SizeofRtMsg || b[0] != unix.AF_INET && b[0] != unix.AF_INET6 {
		return false
	}
	r := &d.event.Rule
	const invert = 2 // FIB_RULE_INVERT
	r.IPv6, r.Table, r.Action, r.SuppressLength = b[0] == unix.AF_INET6, uint32(b[4]), b[7], -1
	r.Inverted = native.Uint32(b[8:])&invert != 0
	if b[3] != 0 {
		r.Other = "tos"
	}
	attributes(b[unix.SizeofRtMsg:], func(kind uint16, value []byte) {
		switch kind {
		case unix.FRA_PRIORITY:
			r.Priority = number(value)
		case unix.FRA_TABLE:
			r.Table = number(value)
		case unix.FRA_DST:
			r.To = netip.PrefixFrom(address(value), int(b[1]))
		case unix.FRA_SRC:
			r.From = netip.PrefixFrom(address(value), int(b[2]))
		case unix.FRA_IIFNAME:
			r.In = text(value)
		case unix.FRA_OIFNAME:
			r.Out = text(value)
		case unix.FRA_SUPPRESS_PREFIXLEN:
			r.SuppressLength = int(int32(number(value)))
		default:
			if !harmless[kind] {
				r.Other = criterion(kind)
			}
		}
	})
	return true
}

// criterion names a match of a rule.
func criterion(kind uint16) string {
	names := map[uint16]string{unix.FRA_FWMARK: "fwmark", unix.FRA_FWMASK: "fwmark", unix.FRA_UID_RANGE: "uidrange", unix.FRA_IP_PROTO: "ipproto",
		unix.FRA_SPORT_RANGE: "sport", unix.FRA_DPORT_RANGE: "dport", unix.FRA_TUN_ID: "tun_id", unix.FRA_L3MDEV: "l3mdev", unix.FRA_GOTO: "goto",
		unix.FRA_FLOW: "realms"}
	if name, known := names[kind]; known {
		return name
	}
	return "unknown"
}
