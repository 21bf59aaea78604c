// SPDX-License-Identifier: Apache-2.0

package cgroup

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"weir/internal/child"
	"weir/internal/fault"
	"weir/kernel/netns"
)

// SocketsPart is the name under which main and TestMain register [ServeSockets] with child.Main.
const SocketsPart = "cgroup-sockets"

// Sockets creates sockets charged to another cgroup than that of this process. A socket belongs to
// the cgroup of its creator, and an accepted socket to that of its listener. A child process in the
// cgroup therefore creates the sockets, and this process takes them (pidfd_getfd, Linux 5.6).
// Sockets is safe for concurrent use until Close. The child dies with this process.
type Sockets struct {
	process *child.Process
	pidfd   int

	mu      sync.Mutex // guards the pipe to the child
	ask     *json.Encoder
	answers *json.Decoder
}

// order requests a socket from the child. The child first closes the previous one, which this
// process has taken.
type order struct {
	Namespace              string // path of a network namespace; "" is the child's own
	Family, Kind, Protocol int
}

// answer holds the descriptor in the child, or an error.
type answer struct {
	FD    int
	Errno unix.Errno
	Error string
}

// OpenSockets starts the child, which appears among the processes of the cgroup. ctx or Close ends
// it.
func (c Cgroup) OpenSockets(ctx context.Context) (*Sockets, error) {
	process, err := child.Start(ctx, SocketsPart, os.Stderr)
	if err != nil {
		return nil, err
	}
	s := &Sockets{process: process, pidfd: -1, ask: json.NewEncoder(process.In), answers: json.NewDecoder(process.Out)}
	if err := c.Add(process.PID()); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	if s.pidfd, err = unix.PidfdOpen(process.PID(), 0); err != nil {
		return nil, errors.Join(needKernel(fmt.Errorf("open child in cgroup %s: %w", c.Path, err)), s.Close())
	}
	return s, nil
}

func needKernel(err error) error {
	if errors.Is(err, unix.ENOSYS) {
		return fault.Wrap(err, fault.Testbed, "use Linux 5.6 or later")
	}
	return err
}

// Socket creates a socket in a namespace as socket(2) does; nil is the namespace of this process.
func (s *Sockets) Socket(ns *netns.Namespace, family, kind int) (int, error) {
	return s.SocketOf(ns, family, kind, 0)
}

// SocketOf is Socket with a protocol.
func (s *Sockets) SocketOf(ns *netns.Namespace, family, kind, protocol int) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	o := order{Family: family, Kind: kind, Protocol: protocol}
	if ns != nil {
		o.Namespace = ns.Path()
	}
	var a answer
	err := s.ask.Encode(o)
	if err == nil {
		err = s.answers.Decode(&a)
	}
	switch {
	case err != nil:
		return -1, fmt.Errorf("make socket in cgroup: its process has ended: %w", err)
	case a.Errno != 0:
		return -1, fmt.Errorf("make socket in cgroup: %w", a.Errno)
	case a.Error != "":
		return -1, fmt.Errorf("make socket in cgroup: %s", a.Error)
	}
	fd, err := unix.PidfdGetfd(s.pidfd, a.FD, 0)
	if err != nil {
		return -1, needKernel(fmt.Errorf("take socket from cgroup: %w", err))
	}
	return fd, nil
}

// Close ends the child and waits for it, so that the cgroup can be removed. Sockets stay open.
func (s *Sockets) Close() error {
	err := s.process.Stop(time.Second)
	if s.pidfd >= 0 {
		err = errors.Join(err, unix.Close(s.pidfd))
	}
	return err
}

// ServeSockets runs in the child.
func ServeSockets(in io.Reader, out io.Writer) error {
	orders, answers := json.NewDecoder(in), json.NewEncoder(out)
	last := -1
	for {
		var o order
		if err := orders.Decode(&o); err != nil {
			return nil // the parent has finished or died
		}
		if last >= 0 {
			_ = unix.Close(last)
		}
		var err error
		last, err = o.carryOut()
		a := answer{FD: last}
		if err != nil && !errors.As(err, &a.Errno) {
			a.Error = err.Error()
		}
		if err := answers.Encode(a); err != nil {
			return fmt.Errorf("answer: %w", err)
		}
	}
}

func (o order) carryOut() (fd int, err error) {
	fd = -1
	if o.Namespace == "" {
		return unix.Socket(o.Family, o.Kind, o.Protocol)
	}
	ns, err := netns.OpenPath(o.Namespace)
	if err != nil {
		return -1, err
	}
	defer func() { _ = ns.Close() }()
	err = ns.Do(func() (err error) {
		fd, err = unix.Socket(o.Family, o.Kind, o.Protocol)
		return err
	})
	return fd, err
}
