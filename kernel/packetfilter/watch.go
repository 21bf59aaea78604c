// SPDX-License-Identifier: Apache-2.0

package packetfilter

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"weir/kernel/netns"
)

// Groups of events (linux/netfilter/nfnetlink.h, linux/xfrm.h).
const (
	groupNFTables = 7
	groupXfrm     = 4
)

// Watch receives events of nftables and IPsec policies. It is not safe for concurrent use.
type Watch struct{ sockets []int }

// Follow subscribes to the changes of a namespace.
func Follow(ns *netns.Namespace) (w *Watch, err error) {
	w = &Watch{}
	err = ns.Do(func() error {
		for protocol, group := range map[int]int{unix.NETLINK_NETFILTER: groupNFTables, unix.NETLINK_XFRM: groupXfrm} {
			fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, protocol)
			if absent(err) {
				continue
			}
			if err != nil {
				return err
			}
			w.sockets = append(w.sockets, fd)
			if err := unix.Bind(fd, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
				return err
			}
			err = unix.SetsockoptInt(fd, unix.SOL_NETLINK, unix.NETLINK_ADD_MEMBERSHIP, group)
			if err != nil && !absent(err) {
				return err
			}
		}
		return nil
	})
	if err != nil {
		w.Close()
		return nil, fmt.Errorf("follow packet filters: %w", err)
	}
	return w, nil
}

// Close ends the subscription.
func (w *Watch) Close() {
	for _, fd := range w.sockets {
		_ = unix.Close(fd)
	}
}

// Descriptors returns the sockets to poll.
func (w *Watch) Descriptors() []int { return w.sockets }

// Changed discards pending events, and reports whether there were any. Lost events count as
// pending.
func (w *Watch) Changed() (changed bool, err error) {
	buffer := make([]byte, 1<<16)
	for _, fd := range w.sockets {
		for {
			_, _, err := unix.Recvfrom(fd, buffer, unix.MSG_DONTWAIT)
			if errors.Is(err, unix.EAGAIN) {
				break
			}
			if err != nil && !errors.Is(err, unix.EINTR) && !errors.Is(err, unix.ENOBUFS) {
				return changed, fmt.Errorf("follow packet filters: %w", err)
			}
			changed = changed || !errors.Is(err, unix.EINTR)
		}
	}
	return changed, nil
}
