// SPDX-License-Identifier: Apache-2.0

package netstate

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"weir/kernel/netns"
)

// Watch collects notifications about one namespace's configuration. They wait in sockets until
// Changes reads them; no goroutine runs. It is not safe for concurrent use.
type Watch struct {
	before  State
	names   map[int]string
	sockets []subscription
	files   *fileWatch
}

// subscription is a netlink socket and the decoder of its messages.
type subscription struct {
	fd   int
	read func(w *Watch, message unix.NlMsghdr, data []byte) (Change, bool)
}

const reportBuffer = 1 << 20 // bytes

// Open subscribes to the changes of ns since the state before.
func Open(ns *netns.Namespace, before State) (*Watch, error) {
	w := &Watch{before: before, names: map[int]string{}}
	err := ns.Do(func() error {
		if err := w.subscribe(); err != nil {
			return err
		}
		var err error
		w.files, err = watchSettings(settingFolders(before))
		return err
	})
	if err != nil {
		w.Close()
		return nil, fmt.Errorf("watch the configuration of a namespace: %w", err)
	}
	for key, value := range before {
		if name, ok := strings.CutSuffix(key, ": index"); ok {
			var index int
			_, _ = fmt.Sscan(value, &index)
			w.names[index] = strings.TrimPrefix(name, "device ")
		}
	}
	return w, nil
}

// rtnetlink groups with messages about configuration.
var groups = []int{
	unix.RTNLGRP_LINK, unix.RTNLGRP_NEIGH, unix.RTNLGRP_TC, unix.RTNLGRP_IPV4_IFADDR, unix.RTNLGRP_IPV4_ROUTE, unix.RTNLGRP_IPV4_RULE,
	unix.RTNLGRP_IPV6_IFADDR, unix.RTNLGRP_IPV6_ROUTE, unix.RTNLGRP_IPV6_RULE, unix.RTNLGRP_IPV4_NETCONF, unix.RTNLGRP_IPV6_NETCONF,
	unix.RTNLGRP_NEXTHOP,
}

func (w *Watch) subscribe() error {
	if err := w.join(unix.NETLINK_ROUTE, (*Watch).routeMessage, groups...); err != nil {
		return err
	}
	err := w.join(unix.NETLINK_NETFILTER, filterMessage, unix.NFNLGRP_NFTABLES)
	if err != nil && !errors.Is(err, unix.EPROTONOSUPPORT) && !errors.Is(err, unix.EINVAL) {
		return err
	}
	handle, err := netlink.NewHandle(unix.NETLINK_GENERIC)
	if err != nil {
		return err
	}
	defer handle.Close()
	family, err := handle.GenlFamilyGet("ethtool")
	if err != nil {
		return nil // a kernel without CONFIG_ETHTOOL_NETLINK: compared only before and after
	}
	for _, group := range family.Groups {
		if group.Name == "monitor" {
			return w.join(unix.NETLINK_GENERIC, (*Watch).deviceMessage, int(group.ID))
		}
	}
	return nil
}

// join opens a netlink socket of the protocol and joins the groups.
func (w *Watch) join(protocol int, read func(*Watch, unix.NlMsghdr, []byte) (Change, bool), groups ...int) error {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, protocol)
	if err != nil {
		return fmt.Errorf("open netlink socket: %w", err)
	}
	w.sockets = append(w.sockets, subscription{fd, read})
	if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, reportBuffer); err != nil {
		return fmt.Errorf("grow buffer of reports: %w", err)
	}
	if err := unix.Bind(fd, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return fmt.Errorf("bind netlink socket: %w", err)
	}
	for _, group := range groups {
		if err := unix.SetsockoptInt(fd, unix.SOL_NETLINK, unix.NETLINK_ADD_MEMBERSHIP, group); err != nil {
			return fmt.Errorf("join netlink group %d: %w", group, err)
		}
	}
	return nil
}

// Changes returns the changes reported since Open or the last call, each once, without reports of
// an unchanged value.
func (w *Watch) Changes() ([]Change, error) {
	var all []Change
	buffer := make([]byte, 1<<16)
	for _, s := range w.sockets {
		found, err := w.drain(s, buffer)
		if err != nil {
			return nil, err
		}
		all = append(all, found...)
	}
	found, err := w.files.changes()
	if err != nil {
		return nil, err
	}
	return unique(append(all, found...)), nil
}

func unique(all []Change) (once []Change) {
	for _, c := range all {
		if !slices.Contains(once, c) {
			once = append(once, c)
		}
	}
	return once
}

func (w *Watch) drain(s subscription, buffer []byte) (all []Change, err error) {
	for {
		n, _, err := unix.Recvfrom(s.fd, buffer, 0)
		switch {
		case errors.Is(err, unix.EAGAIN):
			return all, nil
		case errors.Is(err, unix.EINTR):
			continue
		case errors.Is(err, unix.ENOBUFS):
			all = append(all, Change{What: "so much of the configuration that reports were lost"})
			continue
		case err != nil:
			return all, fmt.Errorf("read reports of the kernel: %w", err)
		}
		for rest := buffer[:n]; len(rest) >= unix.SizeofNlMsghdr; {
			header := unix.NlMsghdr{Len: binary.NativeEndian.Uint32(rest), Type: binary.NativeEndian.Uint16(rest[4:])}
			if int(header.Len) < unix.SizeofNlMsghdr || int(header.Len) > len(rest) {
				break
			}
			if c, counts := s.read(w, header, rest[unix.SizeofNlMsghdr:header.Len]); counts {
				all = append(all, c)
			}
			rest = rest[min(len(rest), int(header.Len+3)&^3):]
		}
	}
}

// Close ends the subscriptions.
func (w *Watch) Close() {
	for _, s := range w.sockets {
		_ = unix.Close(s.fd)
	}
	w.sockets = nil
	w.files.close()
}
