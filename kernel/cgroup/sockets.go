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

// Sockets makes sockets that are charged to a cgroup in which this process is not. A socket belongs
// to the cgroup of the process that makes it, and what a listening socket accepts belongs to the
// listener's; so a child process lives in the cgroup, makes the sockets there and hands them over
// (pidfd_getfd, Linux 5.6). It is safe for concurrent use until Close. The child dies with this
// process.
type Sockets struct {
	process *child.Process
	pidfd   int

	mu      sync.Mutex // guards the conversation with the child
	ask     *json.Encoder
	answers *json.Decoder
}

// order is what the child is asked to do: make a socket, after it has closed the last one, which
// was handed over.
type order struct {
	Namespace              string // path of a network namespace; "" is the child's own
	Family, Kind, Protocol int
}

// answer is the child's descriptor, or what went wrong.
type answer struct {
	FD    int
	Errno unix.Errno
	Error string
}

// OpenSockets starts the child. The processes that the cgroup lists then include it. ctx ends it,
// as Close does.
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

// Socket makes a socket in the namespace as socket(2) does; nil is the namespace of this process.
func (s *Sockets) Socket(ns *netns.Namespace, family, kind int) (int, error) {
	return s.SocketOf(ns, family, kind, 0)
}

// SocketOf is Socket for one protocol of several.
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

// Close ends the child and waits until it has gone, so that the cgroup can be removed. Sockets live
// on.
func (s *Sockets) Close() error {
	err := s.process.Stop(time.Second)
	if s.pidfd >= 0 {
		err = errors.Join(err, unix.Close(s.pidfd))
	}
	return err
}

// ServeSockets is the child's work.
func ServeSockets(in io.Reader, out io.Writer) error {
	orders, answers := json.NewDecoder(in), json.NewEncoder(out)
	last := -1
	for {
		var o order
		if err := orders.Decode(&o); err != nil {
			return nil // the parent is done, or gone
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
