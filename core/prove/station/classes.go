// SPDX-License-Identifier: Apache-2.0

package station

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"sync"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// DSCPs counts received packets by DSCP (RFC 2474): datagrams, or TCP connections by the last
// packet of their handshake.
type DSCPs map[uint8]uint64

// classes counts packets by class. It is safe for concurrent use.
type classes struct {
	mu sync.Mutex
	of DSCPs
}

// came counts one packet by its type of service or traffic class.
func (c *classes) came(tos uint8) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.of == nil {
		c.of = DSCPs{}
	}
	c.of[tos>>2]++
}

func (c *classes) read() DSCPs {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := DSCPs{}
	for dscp, n := range c.of {
		all[dscp] = n
	}
	return all
}

// wantClass requests the traffic class of received packets (IP_RECVTOS, ip(7); IPV6_RECVTCLASS, RFC
// 3542). An IPv4 socket rejects the option of IPv6.
func wantClass(c syscall.Conn) error {
	raw, err := c.SyscallConn()
	if err != nil {
		return fmt.Errorf("ask for the class of service: %w", err)
	}
	outer := raw.Control(func(fd uintptr) {
		_ = unix.SetsockoptInt(int(fd), unix.SOL_IPV6, unix.IPV6_RECVTCLASS, 1)
		err = unix.SetsockoptInt(int(fd), unix.SOL_IP, unix.IP_RECVTOS, 1)
	})
	if err := errors.Join(outer, err); err != nil {
		return fmt.Errorf("ask for the class of service: %w", err)
	}
	return nil
}

// sendAs sets the DSCP of a connected socket.
func sendAs(c *net.UDPConn, dscp uint8) error {
	raw, err := c.SyscallConn()
	if err != nil || dscp == 0 {
		return err
	}
	level, option := unix.SOL_IPV6, unix.IPV6_TCLASS
	if c.RemoteAddr().(*net.UDPAddr).IP.To4() != nil {
		level, option = unix.SOL_IP, unix.IP_TOS
	}
	outer := raw.Control(func(fd uintptr) { err = unix.SetsockoptInt(int(fd), level, option, int(dscp)<<2) })
	return errors.Join(outer, err)
}

// classIn returns the type of service or traffic class in control messages.
func classIn(control []byte) (tos uint8, told bool) {
	messages, err := unix.ParseSocketControlMessage(control)
	if err != nil {
		return 0, false
	}
	for _, m := range messages {
		switch {
		case m.Header.Level == unix.SOL_IP && m.Header.Type == unix.IP_TOS && len(m.Data) > 0:
			return m.Data[0], true
		case m.Header.Level == unix.SOL_IPV6 && m.Header.Type == unix.IPV6_TCLASS && len(m.Data) >= 4:
			return uint8(binary.NativeEndian.Uint32(m.Data)), true
		}
	}
	return 0, false
}

// without removes receive-only control messages, so that the rest can be used for sending.
func without(control []byte) (rest []byte) {
	messages, err := unix.ParseSocketControlMessage(control)
	if err != nil {
		return nil
	}
	for _, m := range messages {
		if m.Header.Level == unix.SOL_IP && m.Header.Type == unix.IP_TOS || m.Header.Level == unix.SOL_IPV6 && m.Header.Type == unix.IPV6_TCLASS ||
			m.Header.Level == unix.SOL_SOCKET {
			continue
		}
		one := make([]byte, unix.CmsgSpace(len(m.Data)))
		binary.NativeEndian.PutUint64(one, uint64(unix.CmsgLen(len(m.Data))))
		binary.NativeEndian.PutUint32(one[8:], uint32(m.Header.Level))
		binary.NativeEndian.PutUint32(one[12:], uint32(m.Header.Type))
		copy(one[unix.CmsgLen(0):], m.Data)
		rest = append(rest, one...)
	}
	return rest
}

// handshakeClass returns the type of service or traffic class of the packet that completed a
// connection, for a listener prepared by wantClass (IP_PKTOPTIONS; IPV6_2292PKTOPTIONS, RFC 2292).
func handshakeClass(c *net.TCPConn) (tos uint8, told bool) {
	raw, err := c.SyscallConn()
	if err != nil {
		return 0, false
	}
	level, option := unix.SOL_IPV6, unix.IPV6_2292PKTOPTIONS
	if c.RemoteAddr().(*net.TCPAddr).IP.To4() != nil {
		level, option = unix.SOL_IP, unix.IP_PKTOPTIONS
	}
	_ = raw.Control(func(fd uintptr) {
		var buffer [256]byte
		length := uint32(len(buffer))
		_, _, failed := unix.Syscall6(unix.SYS_GETSOCKOPT, fd, uintptr(level), uintptr(option), uintptr(unsafe.Pointer(&buffer)), uintptr(unsafe.Pointer(&length)), 0)
		if failed == 0 {
			tos, told = classIn(buffer[:min(int(length), len(buffer))])
		}
	})
	return tos, told
}
