// SPDX-License-Identifier: Apache-2.0

package netstate

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"net"
	"net/netip"
	"strconv"

	"golang.org/x/sys/unix"
)

// object is a decoded kernel message: a display name and fields.
type object struct {
	name   string // "device eth0", "route to 10.0.0.4/30"
	short  string // the device's own name
	fields map[string]string
}

// into adds the fields under the object's name.
func (o object) into(s State) {
	for field, value := range o.fields {
		s[o.name+": "+field] = value
	}
	if len(o.fields) == 0 {
		s[o.name] = "there"
	}
}

// attribute is a netlink attribute.
type attribute struct {
	kind  uint16
	value []byte
}

var errShort = fmt.Errorf("a message of the kernel ends early")

func attributes(b []byte) (all []attribute, err error) {
	for len(b) >= unix.SizeofRtAttr {
		length := int(binary.NativeEndian.Uint16(b))
		if length < unix.SizeofRtAttr || length > len(b) {
			return nil, errShort
		}
		kind := binary.NativeEndian.Uint16(b[2:]) &^ (unix.NLA_F_NESTED | unix.NLA_F_NET_BYTEORDER)
		all = append(all, attribute{kind, b[unix.SizeofRtAttr:length]})
		b = b[min((length+3)&^3, len(b)):]
	}
	return all, nil
}

// how defines the name and format of an attribute; the name "-" omits it.
type how struct {
	name string
	text func([]byte) string
}

// describe converts attributes to fields. It keeps unknown ones in hexadecimal under their number.
func describe(all []attribute, known map[uint16]how) map[string]string {
	fields := map[string]string{}
	for _, a := range all {
		h, named := known[a.kind]
		switch {
		case named && h.name == "-":
		case named && h.text != nil:
			fields[h.name] = h.text(a.value)
		case named:
			fields[h.name] = hexadecimal(a.value)
		default:
			fields["attribute "+strconv.Itoa(int(a.kind))] = hexadecimal(a.value)
		}
	}
	return fields
}

var left = how{name: "-"}

func hexadecimal(b []byte) string { return "0x" + hex.EncodeToString(b) }

func number(b []byte) string {
	switch len(b) {
	case 1:
		return strconv.Itoa(int(b[0]))
	case 2:
		return strconv.Itoa(int(binary.NativeEndian.Uint16(b)))
	case 4:
		return strconv.FormatUint(uint64(binary.NativeEndian.Uint32(b)), 10)
	case 8:
		return strconv.FormatUint(binary.NativeEndian.Uint64(b), 10)
	}
	return hexadecimal(b)
}

func word(b []byte) string { return unix.ByteSliceToString(b) }

func mac(b []byte) string { return net.HardwareAddr(b).String() }

func address(b []byte) string {
	a, ok := netip.AddrFromSlice(b)
	if !ok {
		return hexadecimal(b)
	}
	return a.String()
}

var deviceFields = map[uint16]how{
	unix.IFLA_IFNAME: left, unix.IFLA_STATS: left, unix.IFLA_STATS64: left,
	unix.IFLA_AF_SPEC:     left, // settings (read elsewhere) and counters
	unix.IFLA_PROMISCUITY: left, ifla_allmulti: left, unix.IFLA_EVENT: left,
	unix.IFLA_ADDRESS: {"address", mac}, unix.IFLA_BROADCAST: {"broadcast address", mac}, unix.IFLA_MTU: {"MTU", number},
	unix.IFLA_QDISC: {"qdisc", word}, unix.IFLA_TXQLEN: {"queue length", number}, unix.IFLA_OPERSTATE: {"state", number},
	unix.IFLA_MASTER: {"master", number}, unix.IFLA_LINK: {"peer", number}, unix.IFLA_GROUP: {"group", number},
	unix.IFLA_CARRIER: {"carrier", number}, unix.IFLA_CARRIER_CHANGES: {"changes of the carrier", number},
	unix.IFLA_CARRIER_UP_COUNT: {"times the carrier came", number}, unix.IFLA_CARRIER_DOWN_COUNT: {"times the carrier went", number},
	unix.IFLA_NUM_TX_QUEUES: {"transmit queues", number}, unix.IFLA_NUM_RX_QUEUES: {"receive queues", number},
	unix.IFLA_GSO_MAX_SEGS: {"largest GSO in segments", number}, unix.IFLA_GSO_MAX_SIZE: {"largest GSO", number},
	unix.IFLA_GSO_IPV4_MAX_SIZE: {"largest GSO over IPv4", number}, unix.IFLA_GRO_MAX_SIZE: {"largest GRO", number},
	unix.IFLA_GRO_IPV4_MAX_SIZE: {"largest GRO over IPv4", number}, unix.IFLA_TSO_MAX_SIZE: {"largest TSO", number},
	unix.IFLA_IFALIAS: {"alias", word}, unix.IFLA_PROTO_DOWN: {"protocol down", number}, unix.IFLA_XDP: {"XDP", program},
}

const ifla_allmulti = 61

// program formats IFLA_XDP: mode and program id.
func program(b []byte) string {
	all, err := attributes(b)
	if err != nil {
		return hexadecimal(b)
	}
	mode, id := "none", ""
	for _, a := range all {
		switch a.kind {
		case unix.IFLA_XDP_ATTACHED:
			if len(a.value) > 0 && a.value[0] != 0 {
				mode = "attached in mode " + strconv.Itoa(int(a.value[0]))
			}
		case unix.IFLA_XDP_PROG_ID:
			id = ", program " + number(a.value)
		}
	}
	return mode + id
}

// decodeDevice reads an RTM_NEWLINK message.
func decodeDevice(message []byte) (o object, index int, err error) {
	if len(message) < unix.SizeofIfInfomsg {
		return o, 0, errShort
	}
	all, err := attributes(message[unix.SizeofIfInfomsg:])
	if err != nil {
		return o, 0, err
	}
	o.fields = describe(all, deviceFields)
	for _, a := range all {
		if a.kind == unix.IFLA_IFNAME {
			o.short = word(a.value)
		}
	}
	o.name = "device " + o.short
	index = int(int32(binary.NativeEndian.Uint32(message[4:])))
	o.fields["index"] = strconv.Itoa(index)
	o.fields["flags"] = flags(binary.NativeEndian.Uint32(message[8:]))
	return o, index, nil
}

// flags formats the flags of a device except promiscuous mode.
func flags(value uint32) string {
	up := "down"
	if value&unix.IFF_UP != 0 {
		up = "up"
	}
	if value&unix.IFF_RUNNING == 0 {
		up += " without carrier"
	}
	rest := value &^ (unix.IFF_UP | unix.IFF_RUNNING | unix.IFF_PROMISC | unix.IFF_ALLMULTI)
	return fmt.Sprintf("%s (%#x)", up, rest)
}
