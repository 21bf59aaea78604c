// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"encoding/binary"
	"errors"
	"fmt"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"weir/kernel/netns"
	"weir/kernel/packetsock"
)

// socket sends and captures frames at a device.
type socket struct {
	fd    int
	index int
}

func openSocket(t testing.TB, ns *netns.Namespace, index int) *socket {
	t.Helper()
	s := &socket{index: index}
	err := ns.Do(func() (err error) {
		// It is bound before it receives anything, so no frame of another device is queued.
		if s.fd, err = packetsock.Open(nil, unix.SOCK_RAW|unix.SOCK_NONBLOCK, packetsock.VLANTags); err != nil {
			return err
		}
		if err := unix.SetsockoptInt(s.fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, 64<<20); err != nil {
			return err
		}
		return packetsock.Bind(s.fd, index, unix.ETH_P_ALL)
	})
	if err != nil {
		t.Fatalf("open packet socket: %v", err)
	}
	t.Cleanup(func() { _ = unix.Close(s.fd) })
	return s
}

func (s *socket) send(b []byte) error {
	for {
		err := unix.Sendto(s.fd, b, 0, &unix.SockaddrLinklayer{Ifindex: s.index, Halen: 6})
		if !errors.Is(err, unix.ENOBUFS) && !errors.Is(err, unix.EAGAIN) {
			return err
		}
	}
}

// receive returns the frames that have arrived, with their tags in their places.
func (s *socket) receive() (all [][]byte, err error) {
	buffer, control := make([]byte, 1<<16), make([]byte, 256)
	for {
		n, c, _, from, err := unix.Recvmsg(s.fd, buffer, control, 0)
		switch {
		case errors.Is(err, unix.EAGAIN):
			return all, nil
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil:
			return all, fmt.Errorf("capture: %w", err)
		}
		if at, ok := from.(*unix.SockaddrLinklayer); !ok || at.Pkttype == unix.PACKET_OUTGOING {
			continue
		}
		b := append([]byte{}, buffer[:n]...)
		if tag, tagged := tagOf(control[:c]); tagged {
			b = append(b[:12:12], append([]byte{0x81, 0, byte(tag >> 8), byte(tag)}, b[12:]...)...)
		}
		all = append(all, b)
	}
}

// tagOf returns the VLAN tag that the kernel removed from the frame.
func tagOf(control []byte) (uint16, bool) {
	messages, err := unix.ParseSocketControlMessage(control)
	if err != nil {
		return 0, false
	}
	for _, m := range messages {
		if m.Header.Level != unix.SOL_PACKET || m.Header.Type != unix.PACKET_AUXDATA || len(m.Data) < int(unsafe.Sizeof(unix.TpacketAuxdata{})) {
			continue
		}
		if binary.NativeEndian.Uint32(m.Data)&unix.TP_STATUS_VLAN_VALID != 0 {
			return binary.NativeEndian.Uint16(m.Data[16:]), true
		}
	}
	return 0, false
}
