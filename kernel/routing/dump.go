// SPDX-License-Identifier: Apache-2.0

package routing

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"weir/kernel/netns"
)

// socket is a netlink socket of one namespace.
type socket struct {
	fd       int
	sequence uint32
	buffer   []byte
	decoder  decoder
}

// Sizes of receive buffers: the reader paces a dump, but not events.
const (
	dumpBuffer  = 4 << 20
	eventBuffer = 32 << 20
)

func openSocket(ns *netns.Namespace, receive int, flags int) (*socket, error) {
	s := &socket{buffer: make([]byte, 1<<18)}
	err := ns.Do(func() (err error) {
		if s.fd, err = unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC|flags, unix.NETLINK_ROUTE); err != nil {
			return err
		}
		if err := unix.SetsockoptInt(s.fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, receive); err != nil {
			_ = unix.SetsockoptInt(s.fd, unix.SOL_SOCKET, unix.SO_RCVBUF, receive) // up to the system's limit
		}
		// The kernel then filters routes by table and rejects unknown attributes.
		_ = unix.SetsockoptInt(s.fd, unix.SOL_NETLINK, unix.NETLINK_GET_STRICT_CHK, 1)
		return unix.Bind(s.fd, &unix.SockaddrNetlink{Family: unix.AF_NETLINK})
	})
	if err != nil {
		return nil, fmt.Errorf("open rtnetlink socket: %w", err)
	}
	return s, nil
}

func (s *socket) close() { _ = unix.Close(s.fd) }

// Kinds of objects that can be dumped.
const (
	Links = 1 << iota
	Addresses
	Neighbors
	Routes
	Rules
	Everything = Links | Addresses | Neighbors | Routes | Rules
)

// request is one dump.
type request struct {
	what   int
	get    uint16
	header []byte
}

func requests() []request {
	header := func(size int, family byte) []byte {
		b := make([]byte, size)
		b[0] = family
		return b
	}
	all := []request{
		{Links, unix.RTM_GETLINK, header(unix.SizeofIfInfomsg, unix.AF_UNSPEC)},
		{Addresses, unix.RTM_GETADDR, header(unix.SizeofIfAddrmsg, unix.AF_UNSPEC)},
		{Neighbors, unix.RTM_GETNEIGH, header(unix.SizeofNdMsg, unix.AF_UNSPEC)},
	}
	for _, family := range []byte{unix.AF_INET, unix.AF_INET6} {
		all = append(all, request{Rules, unix.RTM_GETRULE, header(unix.SizeofRtMsg, family)},
			request{Routes, unix.RTM_GETROUTE, header(unix.SizeofRtMsg, family)})
	}
	return all
}

// Maximum number of restarts of an interrupted dump: a table that changes all the time never
// completes.
const attempts = 20

// Dump passes all objects of the given kinds to f. It restarts an interrupted dump: f gets
// [Restart] and must discard the earlier objects.
func Dump(ns *netns.Namespace, what int, f func(*Event)) error {
	s, err := openSocket(ns, dumpBuffer, 0)
	if err != nil {
		return err
	}
	defer s.close()
	for attempt := 1; ; attempt++ {
		interrupted := false
		for _, r := range requests() {
			if what&r.what == 0 {
				continue
			}
			again, err := s.dump(r, f)
			if err != nil {
				return fmt.Errorf("read the kernel's routing: %w", err)
			}
			interrupted = interrupted || again
		}
		if !interrupted {
			return nil
		}
		if attempt == attempts {
			return fmt.Errorf("read the kernel's routing: it changed during each of %d attempts", attempts)
		}
		f(&Event{Kind: Restart})
	}
}

var errTruncated = errors.New("a message is longer than the buffer")

func (s *socket) dump(r request, f func(*Event)) (interrupted bool, err error) {
	s.sequence++
	message := make([]byte, unix.SizeofNlMsghdr+len(r.header))
	native.PutUint32(message, uint32(len(message)))
	native.PutUint16(message[4:], r.get)
	native.PutUint16(message[6:], unix.NLM_F_REQUEST|unix.NLM_F_DUMP)
	native.PutUint32(message[8:], s.sequence)
	copy(message[unix.SizeofNlMsghdr:], r.header)
	if err := unix.Sendto(s.fd, message, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return false, err
	}
	for done := false; !done; {
		n, _, flags, _, err := unix.Recvmsg(s.fd, s.buffer, nil, 0)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil:
			return false, err
		case flags&unix.MSG_TRUNC != 0:
			return false, errTruncated
		}
		done, err = s.messages(s.buffer[:n], s.sequence, &interrupted, f)
		if errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.EAFNOSUPPORT) {
			return interrupted, nil // a kernel without rules or without IPv6
		}
		if err != nil {
			return false, err
		}
	}
	return interrupted, nil
}

// messages splits the result of a read into messages; sequence 0 accepts all.
func (s *socket) messages(b []byte, sequence uint32, interrupted *bool, f func(*Event)) (done bool, err error) {
	for len(b) >= unix.SizeofNlMsghdr {
		length, kind, flags := int(native.Uint32(b)), native.Uint16(b[4:]), native.Uint16(b[6:])
		if length < unix.SizeofNlMsghdr || length > len(b) {
			return true, errTruncated
		}
		content := b[unix.SizeofNlMsghdr:length]
		if sequence == 0 || native.Uint32(b[8:]) == sequence {
			*interrupted = *interrupted || flags&unix.NLM_F_DUMP_INTR != 0
			switch kind {
			case unix.NLMSG_DONE:
				return true, status(content)
			case unix.NLMSG_ERROR:
				return true, status(content)
			default:
				if e, ok := s.decoder.decode(kind, flags, content); ok {
					f(e)
				}
			}
		}
		b = b[min(len(b), (length+3)&^3):]
	}
	return false, nil
}

func status(content []byte) error {
	if len(content) >= 4 {
		if code := int32(native.Uint32(content)); code < 0 {
			return unix.Errno(-code)
		}
	}
	return nil
}
