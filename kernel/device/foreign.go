// SPDX-License-Identifier: Apache-2.0

package device

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"weir/kernel/netns"
	"weir/kernel/rtnl"
	"weir/kernel/tc"
)

// IngressFilters describes, by device, the filters of other owners that see received packets after
// Weir's programs: tc filters, later TCX programs, and nftables chains at the ingress hook. A
// redirection by a program of Weir bypasses them. Missing devices have none. pins is the folder of
// Weir's attachments.
func IngressFilters(ns *netns.Namespace, devices []string, pins string) (map[string][]string, error) {
	if len(devices) == 0 {
		return nil, nil
	}
	all, err := ingressChains(ns)
	if err != nil {
		return nil, err
	}
	names, err := kernelNames(ns)
	if err != nil {
		return nil, err
	}
	for _, dev := range devices {
		found, err := ingressFilters(ns, dev, pins)
		if errors.Is(err, ErrGone) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("read filters at the ingress of %s: %w", dev, err)
		}
		if name := names(dev); name != dev {
			found = append(found, all[name]...)
		}
		if found = append(found, all[dev]...); len(found) > 0 {
			all[dev] = found
		}
	}
	return all, nil
}

// kernelNames returns a function for the kernel's name of a device with an alternative name.
func kernelNames(ns *netns.Namespace) (func(string) string, error) {
	links, err := rtnl.Open(ns)
	if err != nil {
		return nil, err
	}
	defer links.Close()
	devices, err := links.Devices()
	return func(name string) string {
		d, _ := rtnl.Named(devices, name)
		return d.Name
	}, err
}

func ingressFilters(ns *netns.Namespace, dev, pins string) (all []string, err error) {
	conn, index, err := open(ns, dev)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	qdiscs, err := conn.Dump(tc.QdiscMessage, index, 0)
	if err != nil {
		return nil, err
	}
	for _, q := range qdiscs {
		if q.Parent != tc.Clsact {
			continue
		}
		parent := tc.ClsactIngress
		if q.Kind == "ingress" {
			parent = q.Handle
		}
		filters, err := conn.Dump(tc.FilterMessage, index, parent)
		if err != nil {
			return nil, err
		}
		for _, f := range filters {
			if _, _, own := readFilter(f); own {
				continue
			}
			if table, _ := f.HashTable(); !table {
				all = append(all, fmt.Sprintf("tc filter %s with priority %d", f.Kind, f.Priority()))
			}
		}
		if len(filters) == 0 && len(q.Blocks) > 0 {
			all = append(all, "tc filters of a shared block")
		}
	}
	later, err := laterPrograms(ns, dev, pins)
	return slices.Compact(append(all, later...)), err
}

// laterPrograms names the foreign TCX programs after the last one of Weir.
func laterPrograms(ns *netns.Namespace, dev, pins string) (all []string, err error) {
	namespace, index, err := locate(ns, dev)
	if err != nil {
		return nil, err
	}
	err = ns.Do(func() error {
		query, err := link.QueryPrograms(link.QueryOptions{Target: index, Attach: ebpf.AttachTCXIngress})
		if errors.Is(err, unix.EINVAL) || errors.Is(err, link.ErrNotSupported) { // before Linux 6.6
			return nil
		}
		if err != nil {
			return fmt.Errorf("list TCX programs: %w", err)
		}
		own, err := known(namespace, index, pins)
		if err != nil {
			return err
		}
		last := -1
		for i, p := range query.Programs {
			if id, _ := p.LinkID(); own[id] != nil {
				last = i
			}
		}
		if last < 0 {
			return nil
		}
		for _, p := range query.Programs[last+1:] {
			all = append(all, "TCX program "+programName(p.ID))
		}
		return nil
	})
	return all, err
}

func programName(id ebpf.ProgramID) string {
	program, err := ebpf.NewProgramFromID(id)
	if err != nil {
		return fmt.Sprint(id)
	}
	defer func() { _ = program.Close() }()
	if info, err := program.Info(); err == nil && info.Name != "" {
		return info.Name
	}
	return fmt.Sprint(id)
}

// Numbers of linux/netfilter/nf_tables.h, linux/netfilter.h and linux/netfilter_netdev.h.
const (
	nftGetChain                                = unix.NFNL_SUBSYS_NFTABLES<<8 | unix.NFT_MSG_GETCHAIN
	netdevIngress, inetIngress                 = 0, 5
	chainTable, chainName, chainHook, hookType = 1, 3, 4, 1
	hookDevice, hookDevices                    = 3, 4
	sizeofNfgenmsg                             = 4
)

// ingressChains names the nftables chains at the ingress hook by device. A kernel without nftables
// has none.
func ingressChains(ns *netns.Namespace) (map[string][]string, error) {
	all := map[string][]string{}
	err := ns.Do(func() error {
		for _, family := range []struct {
			number byte
			hook   uint32
			name   string
		}{{unix.NFPROTO_NETDEV, netdevIngress, "netdev"}, {unix.NFPROTO_INET, inetIngress, "inet"}} {
			request := nl.NewNetlinkRequest(nftGetChain, unix.NLM_F_DUMP)
			request.AddRawData([]byte{family.number, unix.NFNETLINK_V0, 0, 0})
			chains, err := request.Execute(unix.NETLINK_NETFILTER, 0)
			if errors.Is(err, unix.EPROTONOSUPPORT) || errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOENT) || errors.Is(err, unix.EOPNOTSUPP) {
				return nil
			}
			if err != nil {
				return fmt.Errorf("list nftables chains: %w", err)
			}
			for _, message := range chains {
				if len(message) < sizeofNfgenmsg {
					continue
				}
				name, hook, devices := readChain(message[sizeofNfgenmsg:])
				if message[0] != family.number || hook != family.hook {
					continue
				}
				for _, dev := range devices {
					all[dev] = append(all[dev], "nftables chain "+family.name+" "+name)
				}
			}
		}
		return nil
	})
	return all, err
}

// readChain returns a chain's "table name", and the hook and devices of a base chain.
func readChain(message []byte) (name string, hook uint32, devices []string) {
	text := unix.ByteSliceToString
	table, chain := "", ""
	hook = ^uint32(0)
	eachAttribute(message, func(kind uint16, value []byte) {
		switch kind {
		case chainTable:
			table = text(value)
		case chainName:
			chain = text(value)
		case chainHook:
			eachAttribute(value, func(kind uint16, value []byte) {
				switch {
				case kind == hookType && len(value) >= 4:
					hook = binary.BigEndian.Uint32(value)
				case kind == hookDevice:
					devices = append(devices, text(value))
				case kind == hookDevices:
					eachAttribute(value, func(_ uint16, value []byte) { devices = append(devices, text(value)) })
				}
			})
		}
	})
	slices.Sort(devices)
	return table + " " + chain, hook, slices.Compact(devices)
}

func eachAttribute(list []byte, f func(kind uint16, value []byte)) {
	all, err := nl.ParseRouteAttr(list)
	if err != nil {
		return
	}
	for _, a := range all {
		f(a.Attr.Type&nl.NLA_TYPE_MASK, a.Value)
	}
}
