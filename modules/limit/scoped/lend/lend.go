// SPDX-License-Identifier: Apache-2.0

// Package lend lends users the rights to run a command under a limit or in less than best effort,
// without being root themselves.
//
// A user asks on a unix socket, whose file says who may. The lender makes a cgroup below the one
// that the user's process is in, limits and marks it, and moves that process there. What it lends
// only takes away: limits, a class below everybody's, and a cgroup below his own, where whatever
// holds above goes on holding. It lasts as long as the connection.
//
// What bites:
//   - Who the process is must not change between look and move, and the kernel moves processes by
//     number: it is made to stand still meanwhile (still.go).
//   - A process that somebody with the right to it moves to another cgroup in that moment is moved
//     back.
//   - Nobody is killed. What a user leaves in a cgroup goes on there without limit and class, and
//     counts against his number until it has ended.
package lend

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"weir/internal/fault"
	"weir/internal/listen"
	"weir/internal/wait"
	"weir/modules/limit/scoped"
)

// Lender lends.
type Lender struct {
	Socket string // path
	Group  int    // whose members may ask; Everyone for all users
	// PerUser and Most are how many commands a user, and all users, have at a time.
	PerUser, Most int
	Class         func(name string) (*Class, error) // a class that may be lent
	Log           *slog.Logger

	places places
}

// Everyone is a Group that all users are in.
const Everyone = -1

// Class is what is done for a class of one command.
type Class struct {
	Treatments []scoped.Treatment
	Notes      []string   // what could not be done
	Done       func() any // what was done in the end
}

// Run lends until ctx ends, and with it everything that was lent.
func (l *Lender) Run(ctx context.Context) (err error) {
	listener, err := l.listen()
	if err != nil {
		return err
	}
	// What a lender that was killed has made is nobody's.
	if err := scoped.RemoveStale(); err != nil {
		return errors.Join(err, listener.Close())
	}
	l.places = places{perUser: l.PerUser, most: l.Most, taken: map[uint32]*place{}}
	stop := context.AfterFunc(ctx, func() { _ = listener.Close() })
	defer stop()
	l.Log.Info("lends rights", "socket", l.Socket)
	var sessions sync.WaitGroup
	defer func() { l.settle(&sessions) }()
	for {
		conn, err := listener.AcceptUnix()
		if ctx.Err() != nil {
			return nil
		}
		if err != nil { // descriptors that others have used up, perhaps
			l.Log.Warn("accept", "reason", err)
			_ = wait.For(ctx, acceptPause)
			continue
		}
		sessions.Go(func() { l.serve(ctx, conn) })
	}
}

// endTime is how long the end of what was lent is waited for: a user's descriptor, of a file system
// of his own, may keep whoever closes it. What is left ends with the process.
const endTime = 10 * time.Second

func (l *Lender) settle(sessions *sync.WaitGroup) {
	ended := make(chan struct{})
	go func() {
		sessions.Wait()
		close(ended)
	}()
	select {
	case <-ended:
	case <-time.After(endTime):
		l.Log.Warn("some of what was lent ends with this process")
	}
}

// acceptPause keeps an error that lasts from taking a processor.
const acceptPause = 100 * time.Millisecond

// listen opens the socket for root before others.
func (l *Lender) listen() (*net.UnixListener, error) {
	opened, err := listen.Unix("unixpacket", l.Socket)
	if err != nil {
		return nil, notPermitted(err)
	}
	mode := os.FileMode(0o660)
	if l.Group == Everyone {
		mode = 0o666
	} else {
		err = os.Chown(l.Socket, 0, l.Group)
	}
	if err == nil {
		err = os.Chmod(l.Socket, mode)
	}
	if err != nil {
		return nil, errors.Join(notPermitted(fmt.Errorf("open socket to users: %w", err)), opened.Close())
	}
	return opened.(*net.UnixListener), nil
}

func notPermitted(err error) error {
	if errors.Is(err, unix.EPERM) || errors.Is(err, unix.EACCES) {
		return fault.Wrap(err, fault.Permission, "run it as root")
	}
	return err
}
