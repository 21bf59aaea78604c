// SPDX-License-Identifier: Apache-2.0

package native

import (
	"fmt"
	"net/netip"
	"os"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"weir/kernel/congestion"
	"weir/kernel/tcpinfo"
	"weir/lab/traffic"
)

// socket is a non-blocking socket that waits in Go's poller. It belongs to the namespace in which
// it was made, on any thread. One goroutine may read, one write, and others interrupt or sample it
// at the same time.
type socket struct {
	file *os.File
	raw  syscall.RawConn
	// Request and result of discard; take is made once, so that reading allocates nothing.
	want, got uintptr
	failed    unix.Errno
	take      func(fd uintptr) bool
}

// options are the socket options of a flow.
type options struct {
	kind       int // unix.SOCK_STREAM or SOCK_DGRAM
	congestion string
	dscp       uint8
	noDelay    bool
}

func optionsOf(f traffic.Flow) options {
	o := options{kind: unix.SOCK_STREAM, congestion: f.Congestion, dscp: f.DSCP, noDelay: f.Kind == traffic.Request}
	if f.Kind == traffic.Datagram {
		o.kind = unix.SOCK_DGRAM
	}
	return o
}

// open makes a socket at the endpoint and binds it to a free port of the address.
func open(at traffic.Endpoint, o options) (*socket, error) {
	family := unix.AF_INET6
	if at.Address.Unmap().Is4() {
		family = unix.AF_INET
	}
	fd, err := create(at, family, o.kind|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("make socket: %w", err)
	}
	if err := o.set(fd, family); err != nil {
		_ = unix.Close(fd)
		return nil, err
	}
	if err := unix.Bind(fd, sockaddr(netip.AddrPortFrom(at.Address, 0))); err != nil {
		_ = unix.Close(fd)
		return nil, fmt.Errorf("bind to %s: %w", at.Address, err)
	}
	return adopt(fd)
}

// create makes the socket in the endpoint's namespace and, if it has one, in its cgroup.
func create(at traffic.Endpoint, family, kind int) (fd int, err error) {
	if at.Group != nil {
		return at.Group.Socket(at.Namespace, family, kind)
	}
	err = at.Namespace.Do(func() (err error) {
		fd, err = unix.Socket(family, kind, 0)
		return err
	})
	return fd, err
}

// adopt wraps a non-blocking descriptor.
func adopt(fd int) (*socket, error) {
	file := os.NewFile(uintptr(fd), "socket")
	raw, err := file.SyscallConn()
	if err != nil {
		_ = file.Close()
		return nil, fmt.Errorf("adopt socket: %w", err)
	}
	s := &socket{file: file, raw: raw}
	s.take = s.recv
	return s, nil
}

func (o options) set(fd, family int) error {
	if err := setDSCP(fd, family, o.dscp); err != nil {
		return err
	}
	if o.kind == unix.SOCK_DGRAM {
		return nil
	}
	if o.noDelay {
		if err := unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1); err != nil {
			return fmt.Errorf("set TCP_NODELAY: %w", err)
		}
	}
	return congestion.Set(fd, o.congestion)
}

// setDSCP sets the upper six bits of the TOS byte or traffic class; TCP owns the ECN bits below
// them.
func setDSCP(fd, family int, dscp uint8) error {
	level, option := unix.IPPROTO_IP, unix.IP_TOS
	if family == unix.AF_INET6 {
		level, option = unix.IPPROTO_IPV6, unix.IPV6_TCLASS
	}
	if err := unix.SetsockoptInt(fd, level, option, int(dscp)<<2); err != nil {
		return fmt.Errorf("set DSCP %d: %w", dscp, err)
	}
	return nil
}

// listen opens a listening socket on a free port of the address.
func listen(at traffic.Endpoint, o options, backlog int) (*socket, error) {
	s, err := open(at, o)
	if err != nil {
		return nil, err
	}
	err = s.control(func(fd int) error { return unix.Listen(fd, backlog) })
	if err != nil {
		s.close()
		return nil, fmt.Errorf("listen on %s: %w", at.Address, err)
	}
	return s, nil
}

// control runs f with the descriptor, which stays open meanwhile.
func (s *socket) control(f func(fd int) error) error {
	var err error
	if outer := s.raw.Control(func(fd uintptr) { err = f(int(fd)) }); outer != nil {
		return outer
	}
	return err
}

// local is the socket's bound address and port.
func (s *socket) local() (netip.AddrPort, error) {
	var bound netip.AddrPort
	err := s.control(func(fd int) error {
		sa, err := unix.Getsockname(fd)
		bound = addrPort(sa)
		return err
	})
	if err != nil {
		return bound, fmt.Errorf("read own port: %w", err)
	}
	return bound, nil
}

// connect waits for the handshake. The kernel retransmits a lost SYN until the socket is
// interrupted.
func (s *socket) connect(to netip.AddrPort) error {
	err := s.control(func(fd int) error { return unix.Connect(fd, sockaddr(to)) })
	if err != nil && err != unix.EINPROGRESS {
		return err
	}
	outer := s.raw.Write(func(fd uintptr) bool {
		var code int
		if code, err = unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_ERROR); err != nil {
			return true
		}
		if code != 0 {
			err = unix.Errno(code)
			return true
		}
		_, err = unix.Getpeername(int(fd))
		return err != unix.ENOTCONN
	})
	if outer != nil {
		return outer
	}
	return err
}

// accept waits for the next connection and returns it with its peer.
func (s *socket) accept() (*socket, netip.AddrPort, error) {
	var (
		child int
		sa    unix.Sockaddr
		err   error
	)
	outer := s.raw.Read(func(fd uintptr) bool {
		child, sa, err = unix.Accept4(int(fd), unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC)
		return err != unix.EAGAIN && err != unix.ECONNABORTED
	})
	if outer != nil {
		return nil, netip.AddrPort{}, outer
	}
	if err != nil {
		return nil, netip.AddrPort{}, fmt.Errorf("accept: %w", err)
	}
	accepted, err := adopt(child)
	return accepted, addrPort(sa), err
}

// discard reads up to limit bytes of a TCP socket without copying them (MSG_TRUNC, tcp(7)); 0 is
// the end of the stream.
func (s *socket) discard(limit int) (int, error) {
	s.want = uintptr(limit)
	err := s.raw.Read(s.take)
	switch {
	case err != nil:
		return 0, err
	case s.failed != 0:
		return 0, s.failed
	}
	return int(s.got), nil
}

// recv tries to discard. It returns false if the socket must wait.
func (s *socket) recv(fd uintptr) bool {
	s.got, _, s.failed = unix.Syscall6(unix.SYS_RECVFROM, fd, uintptr(unsafe.Pointer(&sink)), s.want, unix.MSG_TRUNC, 0, 0)
	return s.failed != unix.EAGAIN && s.failed != unix.EINTR
}

// sink is an address for recvfrom; nothing is written there.
var sink [1]byte

// write sends all of b.
func (s *socket) write(b []byte) error {
	_, err := s.file.Write(b)
	return err
}

// finish sends a FIN after the written data.
func (s *socket) finish() error {
	return s.control(func(fd int) error { return unix.Shutdown(fd, unix.SHUT_WR) })
}

// info reads the connection's state.
func (s *socket) info() (info tcpinfo.Info, err error) {
	err = s.control(func(fd int) error {
		info, err = tcpinfo.Read(fd)
		return err
	})
	return info, err
}

// interrupt ends every wait on the socket, now and later, with os.ErrDeadlineExceeded.
func (s *socket) interrupt() { _ = s.file.SetDeadline(time.Unix(1, 0)) }

// abort closes a TCP socket with a RST, so that the kernel drops unacknowledged data.
func (s *socket) abort() {
	_ = s.control(func(fd int) error {
		return unix.SetsockoptLinger(fd, unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{Onoff: 1})
	})
	s.close()
}

func (s *socket) close() { _ = s.file.Close() }

func sockaddr(a netip.AddrPort) unix.Sockaddr {
	if ip := a.Addr().Unmap(); ip.Is4() {
		return &unix.SockaddrInet4{Port: int(a.Port()), Addr: ip.As4()}
	}
	return &unix.SockaddrInet6{Port: int(a.Port()), Addr: a.Addr().As16()}
}

func addrPort(sa unix.Sockaddr) netip.AddrPort {
	switch sa := sa.(type) {
	case *unix.SockaddrInet4:
		return netip.AddrPortFrom(netip.AddrFrom4(sa.Addr), uint16(sa.Port))
	case *unix.SockaddrInet6:
		return netip.AddrPortFrom(netip.AddrFrom16(sa.Addr), uint16(sa.Port))
	}
	return netip.AddrPort{}
}
