// SPDX-License-Identifier: Apache-2.0

// Package packetsock opens packet sockets (AF_PACKET, packet(7)).
//
// Pitfalls: a socket opened with a protocol receives the frames of all devices until it is bound,
// so Open takes no protocol and Bind sets it together with the device.
package packetsock

import (
	"encoding/binary"
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"weir/kernel/netns"
)

// Option is an integer socket option.
type Option struct{ Level, Name, Value int }

// Options that several users share.
var (
	VLANTags   = Option{unix.SOL_PACKET, unix.PACKET_AUXDATA, 1}
	NoOutgoing = Option{unix.SOL_PACKET, unix.PACKET_IGNORE_OUTGOING, 1}
)

// Open opens a socket in a namespace (nil: the calling thread's). kind is unix.SOCK_RAW or
// unix.SOCK_DGRAM, with unix.SOCK_NONBLOCK if wanted. The socket can send; it receives nothing
// before [Bind].
func Open(ns *netns.Namespace, kind int, options ...Option) (fd int, err error) {
	fd = -1
	err = ns.Do(func() (err error) {
		fd, err = unix.Socket(unix.AF_PACKET, kind|unix.SOCK_CLOEXEC, 0)
		return err
	})
	if err != nil {
		return -1, err
	}
	for _, o := range options {
		if err := unix.SetsockoptInt(fd, o.Level, o.Name, o.Value); err != nil {
			return -1, errors.Join(fmt.Errorf("set option %d: %w", o.Name, err), unix.Close(fd))
		}
	}
	return fd, nil
}

// Bind binds a socket to a device by its index, to receive frames of one EtherType; unix.ETH_P_ALL
// receives all, and 0 receives none.
func Bind(fd, index int, etherType uint16) error {
	return unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: Network(etherType), Ifindex: index})
}

// Network converts a number of 16 bits to network byte order.
func Network(n uint16) uint16 {
	return binary.NativeEndian.Uint16(binary.BigEndian.AppendUint16(nil, n))
}
