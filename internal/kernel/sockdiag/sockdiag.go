// SPDX-License-Identifier: Apache-2.0

// Package sockdiag reads what the kernel says of open sockets (sock_diag(7)): which cgroup each
// belongs to.
//
// A socket keeps the cgroup of the process that opened it, wherever that process moves afterwards,
// and so do the sockets that it accepts. [Snapshot] finds those that a cgroup's processes use and
// that belong elsewhere.
package sockdiag

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"weir/internal/fault"
	"weir/internal/kernel/netns"
)

// ErrNoCgroups says that the kernel does not tell the cgroup of a socket.
var ErrNoCgroups = errors.New("this kernel does not tell the cgroups of sockets (INET_DIAG_CGROUP_ID needs Linux 5.9 with CONFIG_INET_DIAG and CONFIG_SOCK_CGROUP_DATA)")

// Layout of linux/inet_diag.h.
const (
	messageLength = 72 // of struct inet_diag_msg
	inodeOffset   = 68 // of idiag_inode in it
	cgroupID      = 21 // INET_DIAG_CGROUP_ID
)

// states are all but SYN-RECEIVED and TIME-WAIT (linux/tcp_states.h), which the kernel keeps
// without a socket of a process.
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

// Cgroups maps the inode of every TCP and UDP socket of a network namespace to the id of the cgroup
// that it belongs to. The error is ErrNoCgroups where the kernel does not tell.
func Cgroups(ns *netns.Namespace) (map[uint64]uint64, error) {
	sockets := map[uint64]uint64{}
	return sockets, ns.Do(func() error {
		for _, protocol := range []uint8{unix.IPPROTO_TCP, unix.IPPROTO_UDP} {
			for _, family := range []uint8{unix.AF_INET, unix.AF_INET6} {
				if err := dump(request{family, protocol}, sockets); err != nil {
					return err
				}
			}
		}
		return nil
	})
}

func dump(r request, sockets map[uint64]uint64) error {
	ask := nl.NewNetlinkRequest(nl.SOCK_DIAG_BY_FAMILY, unix.NLM_F_DUMP)
	ask.AddData(r)
	messages, err := ask.Execute(unix.NETLINK_INET_DIAG, 0)
	switch {
	case errors.Is(err, unix.EPERM), errors.Is(err, unix.EACCES):
		return fault.Wrap(fmt.Errorf("list sockets: %w", err), fault.Permission, "run it as root, or with CAP_NET_ADMIN")
	case errors.Is(err, unix.ENOENT), errors.Is(err, unix.EPROTONOSUPPORT), errors.Is(err, unix.EINVAL):
		return ErrNoCgroups
	case err != nil && !errors.Is(err, netlink.ErrDumpInterrupted): // sockets come and go meanwhile
		return fmt.Errorf("list sockets: %w", err)
	}
	for _, message := range messages {
		inode, cgroup, err := parse(message)
		if err != nil {
			return err
		}
		if inode != 0 {
			sockets[inode] = cgroup
		}
	}
	return nil
}

// parse reads one struct inet_diag_msg and the attributes behind it. The inode is 0 for a socket
// that no process holds.
func parse(message []byte) (inode, cgroup uint64, err error) {
	if len(message) < messageLength {
		return 0, 0, fmt.Errorf("list sockets: a message of %d octets is too short", len(message))
	}
	if inode = uint64(binary.NativeEndian.Uint32(message[inodeOffset:])); inode == 0 {
		return 0, 0, nil
	}
	for rest := message[messageLength:]; len(rest) >= unix.SizeofNlAttr; {
		length, kind := int(binary.NativeEndian.Uint16(rest)), binary.NativeEndian.Uint16(rest[2:])
		if length < unix.SizeofNlAttr || length > len(rest) {
			return 0, 0, fmt.Errorf("list sockets: an attribute of %d octets in %d", length, len(rest))
		}
		if kind == cgroupID && length == unix.SizeofNlAttr+8 {
			return inode, binary.NativeEndian.Uint64(rest[unix.SizeofNlAttr:]), nil
		}
		const align = unix.NLA_ALIGNTO - 1
		rest = rest[min(len(rest), (length+align)&^align):]
	}
	return 0, 0, ErrNoCgroups
}
