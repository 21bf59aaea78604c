// SPDX-License-Identifier: Apache-2.0

package netstate

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"strconv"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

const (
	clsactIngress = 0xfffffff2
	clsactEgress  = 0xfffffff3
)

// decoder decodes objects and resolves device indices.
type decoder struct{ names map[int]string }

func (d decoder) device(index int) string {
	if name := d.names[index]; name != "" {
		return name
	}
	return "number " + strconv.Itoa(index)
}

func (d decoder) index(b []byte) string { return d.device(int(binary.NativeEndian.Uint32(b))) }

func find(all []attribute, kind uint16) []byte {
	for _, a := range all {
		if a.kind == kind {
			return a.value
		}
	}
	return nil
}

// body returns the attributes after a message's header.
func body(message []byte, header int) ([]attribute, error) {
	if len(message) < header {
		return nil, errShort
	}
	return attributes(message[header:])
}

func (d decoder) address(message []byte) (o object, counts bool, err error) {
	all, err := body(message, unix.SizeofIfAddrmsg)
	if err != nil {
		return o, false, err
	}
	own := find(all, unix.IFA_LOCAL)
	if own == nil {
		own = find(all, unix.IFA_ADDRESS)
	}
	o.name = fmt.Sprintf("address %s/%d of %s", address(own), message[1], d.device(int(binary.NativeEndian.Uint32(message[4:]))))
	o.fields = describe(all, map[uint16]how{unix.IFA_CACHEINFO: left, unix.IFA_LOCAL: left, unix.IFA_ADDRESS: {"to", address},
		unix.IFA_LABEL: left, unix.IFA_FLAGS: {"flags", hexadecimal}})
	o.fields["scope"] = strconv.Itoa(int(message[3]))
	return o, true, nil
}

func (d decoder) route(message []byte) (o object, counts bool, err error) {
	all, err := body(message, unix.SizeofRtMsg)
	if err != nil {
		return o, false, err
	}
	if binary.NativeEndian.Uint32(message[8:])&unix.RTM_F_CLONED != 0 {
		return o, false, nil // cached for one destination
	}
	table := int(message[4])
	if t := find(all, unix.RTA_TABLE); len(t) == 4 {
		table = int(binary.NativeEndian.Uint32(t))
	}
	to := "default"
	if dst := find(all, unix.RTA_DST); dst != nil {
		to = address(dst) + "/" + strconv.Itoa(int(message[1]))
	}
	metric := ""
	if m := find(all, unix.RTA_PRIORITY); m != nil {
		metric = " of metric " + number(m)
	}
	over := ""
	if out := find(all, unix.RTA_OIF); len(out) == 4 {
		over = " over " + d.index(out)
	}
	o.name = fmt.Sprintf("route to %s%s%s in table %d, IPv%d", to, over, metric, table, version(message[0]))
	o.fields = describe(all, map[uint16]how{unix.RTA_CACHEINFO: left, unix.RTA_TABLE: left, unix.RTA_DST: left, unix.RTA_PRIORITY: left,
		unix.RTA_OIF: left, unix.RTA_GATEWAY: {"next hop", address}, unix.RTA_PREFSRC: {"source", address}, unix.RTA_METRICS: {"metrics", hexadecimal}})
	o.fields["kind"] = fmt.Sprintf("type %d, scope %d, protocol %d, TOS %d", message[7], message[6], message[5], message[3])
	return o, true, nil
}

func version(family byte) int {
	if family == unix.AF_INET6 {
		return 6
	}
	return 4
}

func (d decoder) rule(message []byte) (o object, counts bool, err error) {
	all, err := body(message, unix.SizeofRtMsg)
	if err != nil {
		return o, false, err
	}
	fields := describe(all, nil)
	o.name = fmt.Sprintf("rule of IPv%d", version(message[0]))
	if priority := find(all, nl.FRA_PRIORITY); priority != nil {
		o.name += " with priority " + number(priority)
	}
	fields["selector"] = hexadecimal(message[1:unix.SizeofRtMsg])
	o.fields = map[string]string{"content": fmt.Sprint(fields)}
	return o, true, nil
}

func (d decoder) nexthop(message []byte) (o object, counts bool, err error) {
	const header, id = 8, 1
	all, err := body(message, header)
	if err != nil {
		return o, false, err
	}
	o.name, o.fields = "next hop "+number(find(all, id)), describe(all, nil)
	return o, true, nil
}

func (d decoder) neighbor(message []byte) (o object, counts bool, err error) {
	all, err := body(message, unix.SizeofNdMsg)
	if err != nil {
		return o, false, err
	}
	to, _ := netip.AddrFromSlice(find(all, unix.NDA_DST))
	state := binary.NativeEndian.Uint16(message[8:])
	if state&unix.NUD_NOARP != 0 || state == unix.NUD_NONE || to.IsMulticast() || !to.IsValid() {
		return o, false, nil
	}
	o.name = fmt.Sprintf("neighbour %s on %s", to, d.device(int(binary.NativeEndian.Uint32(message[4:]))))
	kind := "resolved"
	if state&unix.NUD_PERMANENT != 0 {
		kind = "permanent"
	}
	o.fields = map[string]string{"address": mac(find(all, unix.NDA_LLADDR)), "kind": kind}
	return o, true, nil
}

// handle formats the handle of a qdisc or class as tc does.
func handle(h uint32) string {
	switch h {
	case 0:
		return "0"
	case 0xffffffff:
		return "root"
	case 0xfffffff1:
		return "clsact"
	case clsactIngress:
		return "ingress"
	case clsactEgress:
		return "egress"
	}
	return fmt.Sprintf("%x:%x", h>>16, h&0xffff)
}

// Attributes of traffic control: kind, options, statistics (three), and the mark of offloading.
var trafficFields = map[uint16]how{
	1: {"kind", word}, 2: {"options", hexadecimal}, 3: left, 4: left, 7: left, 12: left,
}

func (d decoder) control(message []byte, what string) (o object, counts bool, err error) {
	all, err := body(message, nl.SizeofTcMsg)
	if err != nil {
		return o, false, err
	}
	at := nl.DeserializeTcMsg(message)
	o.name = fmt.Sprintf("%s %s of %s at %s", what, handle(at.Handle), d.device(int(at.Ifindex)), handle(at.Parent))
	o.fields = describe(all, trafficFields)
	return o, true, nil
}

func (d decoder) qdisc(message []byte) (object, bool, error) { return d.control(message, "qdisc") }

func (d decoder) class(message []byte) (object, bool, error) {
	o, counts, err := d.control(message, "class")
	return o, counts && !flows[o.fields["kind"]], err
}

// flows lists the kinds with one class per queued flow: traffic creates them.
var flows = map[string]bool{"cake": true, "fq_codel": true, "sfq": true}

func (d decoder) filter(message []byte) (object, bool, error) {
	o, counts, err := d.control(message, "filter")
	if err == nil {
		info := nl.DeserializeTcMsg(message).Info
		o.name += fmt.Sprintf(", priority %d", info>>16)
		if o.fields["options"] != "" {
			o.fields["options"] = ruled(message)
		}
	}
	return o, counts, err
}

// ruled returns a filter's options without the counters and ages of actions, but with their length
// and kind.
func ruled(message []byte) string { return strconv.Itoa(len(message)) + " octets" }
