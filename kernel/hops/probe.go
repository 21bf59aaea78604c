// SPDX-License-Identifier: Apache-2.0

package hops

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"weir/internal/fault"
)

// payload is the base length in bytes of a datagram to a hop. The hop number is added to the
// length, so that all probes belong to one flow.
const payload = 32

// probe is a socket that has sent.
type probe struct {
	fd   int
	port uint16
	hop  int  // of a TCP probe; 0 for the socket of all datagrams
	done bool // complete
}

// prober holds the probes of one attempt. The zero value is ready to use.
type prober struct{ probes []probe }

func (r *prober) close() {
	for _, p := range r.probes {
		_ = unix.Close(p.fd)
	}
}

func (r *prober) polled() (all []unix.PollFd) {
	for _, p := range r.probes {
		events := int16(unix.POLLIN)
		if p.hop != 0 {
			events = unix.POLLOUT
		}
		fd := int32(p.fd)
		if p.done {
			fd = -1
		}
		all = append(all, unix.PollFd{Fd: fd, Events: events})
	}
	return all
}

// send sends a probe with the hop limit of a hop.
func (r *prober) send(t *tracer, hop int) error {
	if t.Protocol == "tcp" {
		return r.connect(t, hop)
	}
	if len(r.probes) == 0 {
		if err := r.open(t, unix.SOCK_DGRAM, 0); err != nil {
			return err
		}
		if err := unix.Connect(r.probes[0].fd, t.sockaddr()); err != nil {
			return unreachable(t, err)
		}
		if err := r.named(); err != nil {
			return err
		}
	}
	if err := limitHops(t, r.probes[0].fd, hop); err != nil {
		return err
	}
	err := unix.EAGAIN
	for range 4 { // a call may return the errors of earlier probes
		if err = asErrno(unix.Send(r.probes[0].fd, make([]byte, payload+hop), 0)); !former(err) {
			break
		}
	}
	if err != 0 && !former(err) {
		return unreachable(t, err)
	}
	return nil
}

func asErrno(err error) unix.Errno {
	var number unix.Errno
	if err != nil && !errors.As(err, &number) {
		return unix.EIO
	}
	return number
}

// former reports whether an error belongs to another probe.
func former(err unix.Errno) bool { return err == unix.ECONNREFUSED || err == unix.EHOSTUNREACH }

// connect starts a connection with a hop limit.
func (r *prober) connect(t *tracer, hop int) error {
	if err := r.open(t, unix.SOCK_STREAM, hop); err != nil {
		return err
	}
	p := r.probes[len(r.probes)-1]
	if err := limitHops(t, p.fd, hop); err != nil {
		return err
	}
	if err := unix.Connect(p.fd, t.sockaddr()); err != nil && !errors.Is(err, unix.EINPROGRESS) && !former(asErrno(err)) {
		return unreachable(t, err)
	}
	return r.named()
}

func unreachable(t *tracer, err error) error {
	return fault.Wrap(fmt.Errorf("send to %s: %w", t.To, err), fault.Failed, "look at ip route get "+t.To.String())
}

// open opens a socket with the DSCP.
func (r *prober) open(t *tracer, kind, hop int) error {
	family, level, option := unix.AF_INET, unix.IPPROTO_IP, unix.IP_TOS
	if t.To.Is6() {
		family, level, option = unix.AF_INET6, unix.IPPROTO_IPV6, unix.IPV6_TCLASS
	}
	fd, err := unix.Socket(family, kind|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("open socket: %w", err)
	}
	r.probes = append(r.probes, probe{fd: fd, hop: hop})
	if err := unix.SetsockoptInt(fd, level, option, int(t.DSCP)<<2); err != nil {
		return fmt.Errorf("set DSCP: %w", err)
	}
	return nil
}

func limitHops(t *tracer, fd, hop int) error {
	level, option := unix.IPPROTO_IP, unix.IP_TTL
	if t.To.Is6() {
		level, option = unix.IPPROTO_IPV6, unix.IPV6_UNICAST_HOPS
	}
	if err := unix.SetsockoptInt(fd, level, option, hop); err != nil {
		return fmt.Errorf("set hop limit: %w", err)
	}
	return nil
}

func (t *tracer) sockaddr() unix.Sockaddr {
	if t.To.Is4() {
		return &unix.SockaddrInet4{Port: int(t.Port), Addr: t.To.As4()}
	}
	return &unix.SockaddrInet6{Port: int(t.Port), Addr: t.To.As16()}
}

// named reads the port that the last socket sends from.
func (r *prober) named() error {
	p := &r.probes[len(r.probes)-1]
	own, err := unix.Getsockname(p.fd)
	if err != nil {
		return fmt.Errorf("read socket's port: %w", err)
	}
	switch own := own.(type) {
	case *unix.SockaddrInet4:
		p.port = uint16(own.Port)
	case *unix.SockaddrInet6:
		p.port = uint16(own.Port)
	}
	return nil
}

// hop returns the hop of a quoted probe; 0 for a foreign packet.
func (r *prober) hop(q Quote) int {
	for _, p := range r.probes {
		switch {
		case p.port != q.FromPort:
		case q.Protocol == protocolTCP && p.hop != 0:
			return p.hop
		case q.Protocol == protocolUDP && p.hop == 0:
			if hop := int(q.Length) - 8 - payload; hop > 0 && hop <= MaxHops {
				return hop
			}
		}
	}
	return 0
}

// answered checks a socket for an answer of the destination to the probes of some hops.
func (r *prober) answered(t *tracer, i int, hops []int) {
	p := &r.probes[i]
	if p.hop == 0 {
		if _, _, err := unix.Recvfrom(p.fd, make([]byte, 1), 0); err != nil {
			return // of an ICMP error, which has been read
		}
		// With one probe the answer is unambiguous.
		if len(hops) == 1 {
			t.learn(Hop{Hop: hops[0], Address: t.To, Answer: Replied})
		}
		t.alone = true
		return
	}
	p.done = true
	number, err := unix.GetsockoptInt(p.fd, unix.SOL_SOCKET, unix.SO_ERROR)
	switch {
	case err == nil && number == 0:
		t.learn(Hop{Hop: p.hop, Address: t.To, Answer: Opened})
	case err == nil && unix.Errno(number) == unix.ECONNREFUSED:
		t.learn(Hop{Hop: p.hop, Address: t.To, Answer: Reset})
	}
}
