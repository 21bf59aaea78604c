// SPDX-License-Identifier: Apache-2.0

package packetfilter

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"
)

// Parents of tc filters, which clsact and ingress qdiscs share.
const (
	tcIngress = 0xfffffff2
	tcEgress  = 0xfffffff3

	sizeofTcMsg = 20
	tcaKind     = 1
	tcaOptions  = 2
	tcaChain    = 11
)

// Programs of Weir, by the first part of their names. The policy's warnings name their treatments.
var weirs = []string{"class_", "border_", "links_", "ioam_", "delay_", "limit_", "wire_", "edt_"}

// leads is the upper half of handles of Weir's own flower rules in chain 0.
const leads = 0x77e1

// ingress lists tc filters and TCX programs at the devices.
func ingress() (all []Filter, err error) {
	devices, err := net.Interfaces()
	if err != nil {
		return nil, err
	}
	hooked, err := hooks()
	if err != nil {
		return nil, err
	}
	for _, d := range devices {
		for _, egress := range []bool{false, true} {
			names, err := programs(d.Index, egress)
			if err != nil {
				return nil, err
			}
			if kind := hooked[d.Index]; kind == "clsact" || kind == "ingress" && !egress {
				more, err := filters(d.Index, egress)
				if err != nil {
					return nil, err
				}
				names = append(names, more...)
			}
			side := "ingress"
			if egress {
				side = "egress"
			}
			for _, n := range names {
				all = append(all, Filter{Name: fmt.Sprintf("%s at %s %s", n, d.Name, side), IPv4: true, IPv6: true, Device: d.Name, Egress: egress})
			}
		}
	}
	return all, nil
}

// hooks returns the kind of the clsact or ingress qdisc of each device.
func hooks() (map[int]string, error) {
	messages, err := request(unix.NETLINK_ROUTE, unix.RTM_GETQDISC, unix.NLM_F_DUMP, unix.RTM_NEWQDISC, make([]byte, sizeofTcMsg))
	if err != nil {
		return nil, fmt.Errorf("list qdiscs: %w", err)
	}
	all := map[int]string{}
	for _, m := range messages {
		if len(m) < sizeofTcMsg {
			continue
		}
		attributes(m[sizeofTcMsg:], func(kind uint16, value []byte) {
			if name := text(value); kind == tcaKind && (name == "clsact" || name == "ingress") {
				all[int(native.Uint32(m[4:]))] = name
			}
		})
	}
	return all, nil
}

// filters lists foreign tc filters of chain 0: others are reached from there only.
func filters(index int, egress bool) (all []string, err error) {
	parent := uint32(tcIngress)
	if egress {
		parent = tcEgress
	}
	body := make([]byte, sizeofTcMsg, sizeofTcMsg+8)
	native.PutUint32(body[4:], uint32(index))
	native.PutUint32(body[12:], parent)
	body = native.AppendUint16(native.AppendUint16(body, 8), tcaChain)
	body = native.AppendUint32(body, 0)
	messages, err := request(unix.NETLINK_ROUTE, unix.RTM_GETTFILTER, unix.NLM_F_DUMP, unix.RTM_NEWTFILTER, body)
	if err != nil {
		return nil, fmt.Errorf("list tc filters: %w", err)
	}
	for _, m := range messages {
		if name, foreign := filter(m); foreign && !slices.Contains(all, name) {
			all = append(all, name)
		}
	}
	return all, nil
}

// filter describes a tc filter; Weir's own are not foreign.
func filter(m []byte) (name string, foreign bool) {
	if len(m) < sizeofTcMsg {
		return "", false
	}
	kind, program, options, chain := "", "", false, uint32(0)
	attributes(m[sizeofTcMsg:], func(attribute uint16, value []byte) {
		switch attribute {
		case tcaKind:
			kind = text(value)
		case tcaChain:
			if len(value) >= 4 {
				chain = native.Uint32(value)
			}
		case tcaOptions:
			options = true
			const bpfName = 7
			attributes(value, func(attribute uint16, value []byte) {
				if kind == "bpf" && attribute == bpfName {
					program = text(value)
				}
			})
		}
	})
	handle := native.Uint32(m[8:])
	if !options || chain != 0 || kind == "flower" && handle>>16 == leads || strings.HasPrefix(program, "weir") || own(program) {
		return "", false // without options it is the priority, not a filter
	}
	return fmt.Sprintf("tc filter %s (priority %d)", kind, native.Uint32(m[16:])>>16), true
}

func own(program string) bool {
	return slices.ContainsFunc(weirs, func(prefix string) bool { return strings.HasPrefix(program, prefix) })
}

// programs lists foreign TCX programs.
func programs(index int, egress bool) (all []string, err error) {
	at := ebpf.AttachTCXIngress
	if egress {
		at = ebpf.AttachTCXEgress
	}
	result, err := link.QueryPrograms(link.QueryOptions{Target: index, Attach: at})
	if absent(err) || errors.Is(err, link.ErrNotSupported) || errors.Is(err, unix.ENODEV) {
		return nil, nil // Linux before 6.6, or the device is gone
	}
	if err != nil {
		return nil, fmt.Errorf("list TCX programs: %w", err)
	}
	for _, p := range result.Programs {
		name := fmt.Sprintf("%d", p.ID)
		if program, err := ebpf.NewProgramFromID(p.ID); err == nil {
			info, err := program.Info()
			_ = program.Close()
			if err == nil {
				name = info.Name
			}
		}
		if !own(name) {
			all = append(all, "TCX program "+name)
		}
	}
	return all, nil
}
