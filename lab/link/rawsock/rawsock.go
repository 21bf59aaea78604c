// SPDX-License-Identifier: Apache-2.0

// Package rawsock sends and receives whole Ethernet frames through AF_PACKET sockets (packet(7)),
// with the kernel's arrival time. Calibration and the carriers' tests use it at the ends of links.
//
// Pitfalls: the kernel removes VLAN tags from arriving frames; Receive restores the outermost one.
// Arrivals are stamped with CLOCK_REALTIME, the very first ones perhaps only when they are read:
// send a frame first and wait for it.
package rawsock

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"weir/kernel/netns"
	"weir/kernel/packetsock"
	"weir/kernel/rtnl"
)

const (
	// All receives frames of every EtherType.
	All = unix.ETH_P_ALL
	// None receives nothing: for a send-only socket.
	None = 0

	receiveBuffer = 128 << 20 // bytes: frames wait until a test has sent its last one
)

// Socket is a raw socket on one device. One goroutine may send while another receives.
type Socket struct {
	Device  rtnl.Device
	fd      int
	control []byte
}

// Open opens a socket on a device that receives frames of one EtherType, with any destination
// address.
func Open(ns *netns.Namespace, dev string, etherType uint16) (*Socket, error) {
	s := &Socket{fd: -1, control: make([]byte, 256)}
	if err := s.open(ns, dev, etherType); err != nil {
		_ = s.Close()
		return nil, fmt.Errorf("open raw socket on %s: %w", dev, err)
	}
	return s, nil
}

func (s *Socket) open(ns *netns.Namespace, dev string, etherType uint16) error {
	conn, err := rtnl.Open(ns)
	if err != nil {
		return err
	}
	defer conn.Close()
	if s.Device, err = conn.Device(dev); err != nil {
		return err
	}
	s.fd, err = packetsock.Open(ns, unix.SOCK_RAW|unix.SOCK_NONBLOCK,
		packetsock.Option{Level: unix.SOL_SOCKET, Name: unix.SO_RCVBUFFORCE, Value: receiveBuffer},
		packetsock.Option{Level: unix.SOL_SOCKET, Name: unix.SO_TIMESTAMPNS, Value: 1}, packetsock.VLANTags, packetsock.NoOutgoing)
	if err != nil {
		return err
	}
	return packetsock.Bind(s.fd, s.Device.Index, etherType)
}

// Close closes the socket.
func (s *Socket) Close() error {
	if s.fd < 0 {
		return nil
	}
	err := unix.Close(s.fd)
	s.fd = -1
	return err
}

// Send sends a frame, and waits while the device's queue is full.
func (s *Socket) Send(ctx context.Context, frame []byte) error {
	const retry = 20 * time.Microsecond
	for {
		_, err := unix.Write(s.fd, frame)
		switch {
		case err == nil:
			return nil
		case !errors.Is(err, unix.EAGAIN) && !errors.Is(err, unix.ENOBUFS) && !errors.Is(err, unix.EINTR):
			return fmt.Errorf("send frame: %w", err)
		case ctx.Err() != nil:
			return ctx.Err()
		}
		Pause(retry)
	}
}

// Pause sleeps more precisely than time.Sleep: Go's timers are a millisecond late on many machines.
func Pause(d time.Duration) {
	pause := unix.NsecToTimespec(int64(d))
	_ = unix.ClockNanosleep(unix.CLOCK_MONOTONIC, 0, &pause, nil)
}

// Wait waits until a frame can be read; false means that none came within limit.
func (s *Socket) Wait(limit time.Duration) (bool, error) {
	readable := []unix.PollFd{{Fd: int32(s.fd), Events: unix.POLLIN}}
	timeout := unix.NsecToTimespec(int64(limit))
	n, err := unix.Ppoll(readable, &timeout, nil)
	if err != nil && !errors.Is(err, unix.EINTR) {
		return false, fmt.Errorf("wait for frames: %w", err)
	}
	return n > 0 || errors.Is(err, unix.EINTR), nil
}

// Receive reads one frame into buffer, without waiting, and returns its length and arrival
// (CLOCK_REALTIME). ok is false when there is none.
func (s *Socket) Receive(buffer []byte) (n int, at time.Duration, ok bool, err error) {
	n, controls, _, _, err := unix.Recvmsg(s.fd, buffer, s.control, unix.MSG_DONTWAIT)
	if errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EINTR) {
		return 0, 0, false, nil
	}
	if err != nil {
		return 0, 0, false, fmt.Errorf("receive frame: %w", err)
	}
	at, tag := parse(s.control[:controls])
	if tag != [4]byte{} && n >= 12 && n+4 <= len(buffer) {
		copy(buffer[16:], buffer[12:n])
		copy(buffer[12:], tag[:])
		n += 4
	}
	return n, at, true, nil
}

// Now reads the clock of arrivals.
func Now() time.Duration {
	var now unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_REALTIME, &now)
	return time.Duration(now.Nano())
}

// auxiliary is struct tpacket_auxdata (linux/if_packet.h).
type auxiliary struct {
	status, length, captured uint32
	mac, network, tci, tpid  uint16
}

// parse reads the arrival and the VLAN tag from a message's control data.
func parse(control []byte) (at time.Duration, tag [4]byte) {
	at = -1
	for len(control) >= unix.CmsgLen(0) {
		h := (*unix.Cmsghdr)(unsafe.Pointer(&control[0]))
		if uint64(h.Len) < uint64(unix.CmsgLen(0)) || uint64(h.Len) > uint64(len(control)) {
			break
		}
		length := int(h.Len) - unix.CmsgLen(0)
		data := control[unix.CmsgLen(0):h.Len]
		switch {
		case h.Level == unix.SOL_SOCKET && h.Type == unix.SCM_TIMESTAMPNS && length >= 16:
			at = time.Duration((*unix.Timespec)(unsafe.Pointer(&data[0])).Nano())
		case h.Level == unix.SOL_PACKET && h.Type == unix.PACKET_AUXDATA && length >= int(unsafe.Sizeof(auxiliary{})):
			tag = (*auxiliary)(unsafe.Pointer(&data[0])).tag()
		}
		control = control[min(unix.CmsgSpace(length), len(control)):]
	}
	if at < 0 {
		at = Now()
	}
	return at, tag
}

func (a *auxiliary) tag() (tag [4]byte) {
	if a.status&unix.TP_STATUS_VLAN_VALID == 0 {
		return tag
	}
	tpid := uint16(0x8100)
	if a.status&unix.TP_STATUS_VLAN_TPID_VALID != 0 {
		tpid = a.tpid
	}
	binary.BigEndian.PutUint16(tag[:], tpid)
	binary.BigEndian.PutUint16(tag[2:], a.tci)
	return tag
}
