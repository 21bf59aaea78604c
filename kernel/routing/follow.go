// SPDX-License-Identifier: Apache-2.0

package routing

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"weir/kernel/netns"
)

// Follower receives changes. It is not safe for concurrent use.
type Follower struct{ socket *socket }

var groups = []int{
	unix.RTNLGRP_LINK, unix.RTNLGRP_NEIGH, unix.RTNLGRP_IPV4_IFADDR, unix.RTNLGRP_IPV6_IFADDR, unix.RTNLGRP_IPV4_ROUTE, unix.RTNLGRP_IPV6_ROUTE,
	unix.RTNLGRP_IPV4_RULE, unix.RTNLGRP_IPV6_RULE, unix.RTNLGRP_IPV4_NETCONF, unix.RTNLGRP_IPV6_NETCONF, unix.RTNLGRP_NEXTHOP,
}

// Follow subscribes to the changes of a namespace. A dump after it misses nothing.
func Follow(ns *netns.Namespace) (*Follower, error) {
	s, err := openSocket(ns, eventBuffer, unix.SOCK_NONBLOCK)
	if err != nil {
		return nil, err
	}
	for _, group := range groups {
		if err := unix.SetsockoptInt(s.fd, unix.SOL_NETLINK, unix.NETLINK_ADD_MEMBERSHIP, group); err != nil {
			s.close()
			return nil, fmt.Errorf("join netlink group %d: %w", group, err)
		}
	}
	return &Follower{s}, nil
}

// Close ends the subscription.
func (w *Follower) Close() { w.socket.close() }

// Wait returns at the first event, after the given time, or when ctx ends; ready reports whether
// events are available, here or at one of the other sockets.
func (w *Follower) Wait(ctx context.Context, limit time.Duration, others ...int) (ready bool, err error) {
	const step = 100 * time.Millisecond // maximum delay of noticing the end of ctx
	for end := time.Now().Add(limit); ; {
		left := min(step, time.Until(end))
		if left <= 0 || ctx.Err() != nil {
			return false, ctx.Err()
		}
		fds := []unix.PollFd{{Fd: int32(w.socket.fd), Events: unix.POLLIN}}
		for _, fd := range others {
			fds = append(fds, unix.PollFd{Fd: int32(fd), Events: unix.POLLIN})
		}
		n, err := unix.Poll(fds, int(left.Milliseconds())+1)
		if n > 0 {
			return true, nil
		}
		if err != nil && !errors.Is(err, unix.EINTR) {
			return false, fmt.Errorf("wait for changes of routing: %w", err)
		}
	}
}

// Drain passes pending events to f, up to about limit of them.
func (w *Follower) Drain(limit int, f func(*Event)) error {
	ignored, count := false, 0
	for count < limit {
		n, _, flags, _, err := unix.Recvmsg(w.socket.fd, w.socket.buffer, nil, unix.MSG_DONTWAIT)
		switch {
		case errors.Is(err, unix.EAGAIN):
			return nil
		case errors.Is(err, unix.EINTR):
			continue
		case errors.Is(err, unix.ENOBUFS), err == nil && flags&unix.MSG_TRUNC != 0:
			f(&Event{Kind: Lost})
			count++
			continue
		case err != nil:
			return fmt.Errorf("read changes of routing: %w", err)
		}
		_, err = w.socket.messages(w.socket.buffer[:n], 0, &ignored, func(e *Event) { count++; f(e) })
		if err != nil {
			f(&Event{Kind: Lost})
		}
	}
	return nil
}
