// SPDX-License-Identifier: Apache-2.0

// Package packetfilter lists the objects of a namespace, beside routing, that may drop, change or
// redirect forwarded packets: nftables, iptables, IPVS, IPsec policies, tc filters, TCX programs.
//
// Pitfalls:
//   - It reports that an object may decide about packets. It does not evaluate rules.
//   - iptables-legacy, IPVS and TCX have no events: [Watch] reports the others, so poll as well.
package packetfilter

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"weir/kernel/netns"
)

// Filter may decide about forwarded packets.
type Filter struct {
	Name       string // for people: "nftables chain inet fw forward (3 rules, policy drop)"
	IPv4, IPv6 bool
	// Device limits the filter to packets that one device receives, or sends with Egress. "" is all
	// devices.
	Device string
	Egress bool
	To     netip.Prefix // limits the filter to destinations; the zero value is all
}

// Read returns the filters of ns; nil is the calling thread's namespace.
func Read(ns *netns.Namespace) (all []Filter, err error) {
	err = ns.Do(func() error {
		for _, read := range []func() ([]Filter, error){nftables, legacy, ipvs, xfrm, ingress} {
			some, err := read()
			if err != nil {
				return fmt.Errorf("read packet filters: %w", err)
			}
			all = append(all, some...)
		}
		return nil
	})
	return all, err
}

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

func text(b []byte) string { return unix.ByteSliceToString(b) }

// raw is a request body.
type raw []byte

func (r raw) Len() int          { return len(r) }
func (r raw) Serialize() []byte { return r }

// Attempts of a dump that changes of the kernel interrupt.
const attempts = 20

// request returns the bodies of the replies, or none if the kernel lacks the subsystem.
func request(protocol, kind, flags int, reply uint16, body []byte) ([][]byte, error) {
	for attempt := 1; ; attempt++ {
		r := nl.NewNetlinkRequest(kind, flags)
		r.AddData(raw(body))
		all, err := r.Execute(protocol, reply)
		switch {
		case errors.Is(err, netlink.ErrDumpInterrupted) && attempt < attempts:
			continue
		case protocol != unix.NETLINK_ROUTE && absent(err):
			return nil, nil
		}
		return all, err
	}
}

// absent reports that the kernel lacks a subsystem.
func absent(err error) bool {
	for _, lacks := range []unix.Errno{unix.EPROTONOSUPPORT, unix.EOPNOTSUPP, unix.EAFNOSUPPORT, unix.EINVAL, unix.ENOPROTOOPT, unix.ENOENT} {
		if errors.Is(err, lacks) {
			return true
		}
	}
	return false
}
