// SPDX-License-Identifier: Apache-2.0

package netstate

import (
	"encoding/binary"
	"fmt"
	"strings"

	"golang.org/x/sys/unix"
)

// routeMessage judges one message of rtnetlink.
func (w *Watch) routeMessage(header unix.NlMsghdr, data []byte) (Change, bool) {
	d := decoder{names: w.names}
	switch header.Type {
	case unix.RTM_NEWLINK, unix.RTM_DELLINK:
		o, index, err := decodeDevice(data)
		if was := w.names[index]; err == nil && was != "" && was != o.short {
			return Change{"device " + was + ": name", was, o.short}, true
		}
		return w.judge(o, err == nil, header.Type == unix.RTM_DELLINK)
	case unix.RTM_NEWADDR, unix.RTM_DELADDR:
		return w.judged(d.address(data))(header.Type == unix.RTM_DELADDR)
	case unix.RTM_NEWROUTE, unix.RTM_DELROUTE:
		return w.judged(d.route(data))(header.Type == unix.RTM_DELROUTE)
	case unix.RTM_NEWRULE, unix.RTM_DELRULE:
		return w.judged(d.rule(data))(header.Type == unix.RTM_DELRULE)
	case unix.RTM_NEWNEXTHOP, unix.RTM_DELNEXTHOP:
		return w.judged(d.nexthop(data))(header.Type == unix.RTM_DELNEXTHOP)
	case unix.RTM_NEWNEIGH, unix.RTM_DELNEIGH:
		return w.judged(d.neighbor(data))(header.Type == unix.RTM_DELNEIGH)
	case unix.RTM_NEWQDISC, unix.RTM_DELQDISC:
		return w.judged(d.qdisc(data))(header.Type == unix.RTM_DELQDISC)
	case unix.RTM_NEWTCLASS, unix.RTM_DELTCLASS:
		return w.judged(d.class(data))(header.Type == unix.RTM_DELTCLASS)
	case unix.RTM_NEWTFILTER, unix.RTM_DELTFILTER:
		return w.judged(d.filter(data))(header.Type == unix.RTM_DELTFILTER)
	case unix.RTM_NEWNETCONF, unix.RTM_DELNETCONF:
		return w.netconf(data)
	}
	return Change{}, false
}

func (w *Watch) judged(o object, counts bool, err error) func(removed bool) (Change, bool) {
	return func(removed bool) (Change, bool) { return w.judge(o, counts && err == nil, removed) }
}

// judge compares the object in a message with its previous state.
func (w *Watch) judge(o object, counts, removed bool) (Change, bool) {
	if !counts {
		return Change{}, false
	}
	known, fields := false, o.name+": "
	for key := range w.before {
		if key == o.name || strings.HasPrefix(key, fields) {
			known = true
			break
		}
	}
	switch {
	case removed:
		return Change{What: o.name, Before: "it came or was there"}, true
	case !known:
		return Change{What: o.name, After: "new"}, true
	}
	for field, now := range o.fields {
		// A field missing before is no change: not all messages have all attributes.
		if was, listed := w.before[o.name+": "+field]; listed && was != now {
			return Change{o.name + ": " + field, was, now}, true
		}
	}
	return Change{}, false
}

// netconf decodes a notification about an IP setting of a device (linux/netconf.h): family, then
// attributes starting with the device index. The watched files contain the setting itself.
func (w *Watch) netconf(data []byte) (Change, bool) {
	const index = 1
	all, err := body(data, 4)
	if err != nil {
		return Change{}, false
	}
	at := find(all, index)
	if len(at) != 4 {
		return Change{}, false
	}
	device := "all devices"
	if i := int32(binary.NativeEndian.Uint32(at)); i > 0 {
		device = decoder{names: w.names}.device(int(i))
	}
	return Change{What: fmt.Sprintf("a setting of IPv%d of %s", version(data[0]), device)}, true
}

func filterMessage(_ *Watch, _ unix.NlMsghdr, _ []byte) (Change, bool) {
	return Change{What: "nftables rules"}, true
}

// Notifications of ethtool (linux/ethtool_netlink.h), by command.
var deviceReports = map[byte]string{3: "link settings", 5: "link mode", 10: "wake-on-LAN", 13: "offloads", 15: "private flags",
	17: "rings", 19: "channels", 21: "interrupt coalescing", 23: "pause frames", 25: "energy saving"}

// deviceMessage judges one message of ethtool: command, version, then attributes
// starting with the device.
func (w *Watch) deviceMessage(_ unix.NlMsghdr, data []byte) (Change, bool) {
	const header, headerName = 1, 2
	all, err := body(data, 4)
	if err != nil {
		return Change{}, false
	}
	what, device := deviceReports[data[0]], ""
	if what == "" {
		what = fmt.Sprintf("settings (message %d)", data[0])
	}
	if inner, err := attributes(find(all, header)); err == nil {
		device = word(find(inner, headerName))
	}
	return Change{What: what + " of " + device}, true
}
