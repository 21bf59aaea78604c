// SPDX-License-Identifier: Apache-2.0

package station

import (
	"errors"
	"fmt"
	"io"
	"syscall"

	"golang.org/x/sys/unix"
)

// belongTo sets the owner of the server's sockets, and of accepted ones: limits of users match the
// owner of a socket, which may differ from that of its process (fchown(2) on a socket).
func (s *Server) belongTo(user int) error {
	s.owner = user
	return errors.Join(chown(s.tcp, user), chown(s.udp, user))
}

func chown(socket syscall.Conn, user int) error {
	raw, err := socket.SyscallConn()
	if err != nil {
		return fmt.Errorf("give socket to user %d: %w", user, err)
	}
	return give(raw, user)
}

// give sets the owner of a socket.
func give(raw syscall.RawConn, user int) (err error) {
	outer := raw.Control(func(fd uintptr) { err = unix.Fchown(int(fd), user, user) })
	if err = errors.Join(outer, err); err != nil {
		return fmt.Errorf("give socket to user %d: %w", user, err)
	}
	return nil
}

// bounded reads at most left bytes; a negative left is no limit.
type bounded struct {
	from io.Reader
	left int
}

func (b *bounded) Read(p []byte) (int, error) {
	if b.left == 0 {
		return 0, io.ErrUnexpectedEOF
	}
	if b.left > 0 {
		p = p[:min(len(p), b.left)]
	}
	n, err := b.from.Read(p)
	if b.left > 0 {
		b.left -= n
	}
	return n, err
}
