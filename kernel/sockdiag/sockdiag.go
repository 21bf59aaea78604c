// SPDX-License-Identifier: Apache-2.0

// Package sockdiag reads the cgroups of open sockets (sock_diag(7)).
//
// A socket keeps the cgroup of its creator even if the process moves, and accepted sockets inherit
// it. [Snapshot] finds sockets used in one cgroup and charged to another.
package sockdiag

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"weir/internal/fault"
	"weir/kernel/netns"
)

// ErrNoCgroups is returned if the kernel does not report cgroups of sockets.
var ErrNoCgroups = errors.New("this kernel does not report the cgroups of sockets (INET_DIAG_CGROUP_ID needs Linux 5.9 with CONFIG_INET_DIAG and CONFIG_SOCK_CGROUP_DATA)")

// Layout of linux/inet_diag.h.
const (
	messageLength = 72 // of struct inet_diag_msg
	stateOffset   = 1  // of idiag_state in it
	unsentOffset  = 60 // of idiag_wqueue
	inodeOffset   = 68 // of idiag_inode
	cgroupID      = 21 // INET_DIAG_CGROUP_ID
)

// States of linux/tcp_states.h. For a listening socket the send-queue field holds the backlog.
const (
	synSent  = 2
	finWait1 = 4
	lastAck  = 9
	closing  = 11

	listening = 10
)

// states is all states except SYN-RECEIVED and TIME-WAIT, in which no process has the socket.
const states = (1<<12 - 1) &^ (1 << 3) &^ (1 << 6)

// request is struct inet_diag_req_v2 for all sockets of a family and protocol.
type request struct{ family, protocol uint8 }

func (request) Len() int { return 56 }

func (r request) Serialize() []byte {
	out := make([]byte, r.Len())
	out[0], out[1] = r.family, r.protocol
	binary.NativeEndian.PutUint32(out[4:], states)
	return out
}

// socket holds the fields of one message.
type socket struct {
	inode  uint64 // 0 if no process has it open
	cgroup uint64 // id; 0 if not reported
	unsent uint32 // unacknowledged bytes
}

// Cgroups maps the inode of every TCP and UDP socket of a network namespace to the id of its
// cgroup. The error is ErrNoCgroups if the kernel does not report cgroups.
func Cgroups(ns *netns.Namespace) (map[uint64]uint64, error) {
	sockets := map[uint64]uint64{}
	err := dumpAll(ns, []uint8{unix.IPPROTO_TCP, unix.IPPROTO_UDP}, func(s socket) {
		if s.inode != 0 {
			sockets[s.inode] = s.cgroup
		}
	})
	return sockets, err
}

// Unsent counts the TCP sockets in cgroups of the given ids with unacknowledged data, whether a
// process has them open or not. An unacknowledged FIN does not count. The error is ErrNoCgroups if
// the kernel does not report cgroups.
func Unsent(ns *netns.Namespace, cgroups map[uint64]bool) (n int, err error) {
	err = dumpAll(ns, []uint8{unix.IPPROTO_TCP}, func(s socket) {
		if s.unsent > 0 && cgroups[s.cgroup] {
			n++
		}
	})
	return n, err
}

func dumpAll(ns *netns.Namespace, protocols []uint8, found func(socket)) error {
	return ns.Do(func() error {
		for _, protocol := range protocols {
			for _, family := range []uint8{unix.AF_INET, unix.AF_INET6} {
				if err := dump(request{family, protocol}, found); err != nil {
					return err
				}
			}
		}
		return nil
	})
}

func dump(r request, found func(socket)) error {
	ask := nl.NewNetlinkRequest(nl.SOCK_DIAG_BY_FAMILY, unix.NLM_F_DUMP)
	ask.AddData(r)
	messages, err := ask.Execute(unix.NETLINK_INET_DIAG, 0)
	switch {
	case errors.Is(err, unix.EPERM), errors.Is(err, unix.EACCES):
		return fault.Wrap(fmt.Errorf("list sockets: %w", err), fault.Permission, "run it as root, or with CAP_NET_ADMIN")
	case errors.Is(err, unix.ENOENT), errors.Is(err, unix.EPROTONOSUPPORT), errors.Is(err, unix.EINVAL):
		return ErrNoCgroups
	case err != nil && !errors.Is(err, netlink.ErrDumpInterrupted): // sockets change during the dump
		return fmt.Errorf("list sockets: %w", err)
	}
	for _, message := range messages {
		s, err := parse(message)
		if err != nil {
			return err
		}
		found(s)
	}
	return nil
}

// unsent returns the bytes in a queue in which a SYN or FIN counts as one.
func unsent(state uint8, queued uint32) uint32 {
	switch state {
	case listening:
		return 0
	case synSent, finWait1, lastAck, closing:
		return max(queued, 1) - 1
	}
	return queued
}

// parse decodes a struct inet_diag_msg and its attributes.
func parse(message []byte) (s socket, err error) {
	if len(message) < messageLength {
		return s, fmt.Errorf("list sockets: a message of %d octets is too short", len(message))
	}
	s.inode = uint64(binary.NativeEndian.Uint32(message[inodeOffset:]))
	s.unsent = unsent(message[stateOffset], binary.NativeEndian.Uint32(message[unsentOffset:]))
	for rest := message[messageLength:]; len(rest) >= unix.SizeofNlAttr; {
		length, kind := int(binary.NativeEndian.Uint16(rest)), binary.NativeEndian.Uint16(rest[2:])
		if length < unix.SizeofNlAttr || length > len(rest) {
			return s, fmt.Errorf("list sockets: an attribute of %d octets in %d", length, len(rest))
		}
		if kind == cgroupID && length == unix.SizeofNlAttr+8 {
			s.cgroup = binary.NativeEndian.Uint64(rest[unix.SizeofNlAttr:])
			return s, nil
		}
		const align = unix.NLA_ALIGNTO - 1
		rest = rest[min(len(rest), (length+align)&^align):]
	}
	if s.inode == 0 {
		return s, nil // for instance a kernel socket
	}
	return s, ErrNoCgroups
}
