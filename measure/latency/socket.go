// SPDX-License-Identifier: Apache-2.0

package latency

import (
	"net"
	"net/netip"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// socket is a UDP socket that reports the local address and the kernel's time of each datagram, and
// sends from that address: a host may have several.
type socket struct {
	*net.UDPConn
	buffer [maxDatagram + 1]byte // one byte more shows longer datagrams
	oob    [256]byte
}

// newSocket sets the options of an open socket.
func newSocket(conn *net.UDPConn) (*socket, error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return nil, err
	}
	var failed error
	err = raw.Control(func(fd uintptr) {
		failed = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_TIMESTAMPNS, 1)
		if failed != nil {
			return
		}
		// One of them fails: the socket has one family.
		v6 := unix.SetsockoptInt(int(fd), unix.IPPROTO_IPV6, unix.IPV6_RECVPKTINFO, 1)
		if v6 != nil {
			failed = unix.SetsockoptInt(int(fd), unix.IPPROTO_IP, unix.IP_PKTINFO, 1)
		}
	})
	if err != nil {
		return nil, err
	}
	return &socket{UDPConn: conn}, failed
}

// datagram is a received datagram.
type datagram struct {
	payload []byte // valid until the next read
	from    netip.AddrPort
	to      netip.AddrPort
	at      time.Time
}

// next reads a datagram. One goroutine calls it.
func (s *socket) next() (d datagram, err error) {
	n, oobn, _, from, err := s.ReadMsgUDPAddrPort(s.buffer[:], s.oob[:])
	if err != nil {
		return d, err
	}
	now := time.Now()
	d = datagram{payload: s.buffer[:n], from: netip.AddrPortFrom(from.Addr().Unmap(), from.Port()), at: now}
	local := s.LocalAddr().(*net.UDPAddr).AddrPort()
	address := local.Addr()
	messages, _ := unix.ParseSocketControlMessage(s.oob[:oobn])
	for _, m := range messages {
		switch {
		case m.Header.Level == unix.SOL_SOCKET && m.Header.Type == unix.SO_TIMESTAMPNS && len(m.Data) >= int(unsafe.Sizeof(unix.Timespec{})):
			stamp := *(*unix.Timespec)(unsafe.Pointer(&m.Data[0]))
			// A step of the clock between both readings makes no negative or long wait.
			if age := now.Sub(time.Unix(stamp.Unix())); age > 0 && age < time.Second {
				d.at = now.Add(-age)
			}
		case m.Header.Level == unix.IPPROTO_IPV6 && m.Header.Type == unix.IPV6_PKTINFO && len(m.Data) >= unix.SizeofInet6Pktinfo:
			address = netip.AddrFrom16([16]byte(m.Data[:16]))
		case m.Header.Level == unix.IPPROTO_IP && m.Header.Type == unix.IP_PKTINFO && len(m.Data) >= unix.SizeofInet4Pktinfo:
			address = netip.AddrFrom4([4]byte(m.Data[8:12])) // ipi_addr, the header's destination
		}
	}
	d.to = netip.AddrPortFrom(address.Unmap(), local.Port())
	return d, nil
}

// send sends a datagram from a local address. It is safe for concurrent use.
func (s *socket) send(payload []byte, from, to netip.AddrPort) error {
	var oob []byte
	if a := from.Addr(); s.v6() {
		// The kernel takes a mapped IPv4 address here (ip_cmsg_send).
		oob = unix.PktInfo6(&unix.Inet6Pktinfo{Addr: a.As16()})
	} else {
		oob = unix.PktInfo4(&unix.Inet4Pktinfo{Spec_dst: a.As4()})
	}
	if s.v6() && to.Addr().Is4() {
		to = netip.AddrPortFrom(netip.AddrFrom16(to.Addr().As16()), to.Port())
	}
	_, _, err := s.WriteMsgUDPAddrPort(payload, oob, to)
	return err
}

// v6 reports whether the socket has the family IPv6, also for mapped IPv4 addresses.
func (s *socket) v6() bool { return s.LocalAddr().(*net.UDPAddr).AddrPort().Addr().Is6() }
