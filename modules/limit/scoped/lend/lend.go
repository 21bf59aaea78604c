// SPDX-License-Identifier: Apache-2.0

// Package lend lets unprivileged users run a command under a limit or in less than best effort.
//
// A user connects to a unix socket; its file mode and group control access. The lender creates a
// cgroup below the cgroup of the user's process, applies limits and marks, and moves the process
// there. Lent rights only restrict: a limit, a class below best effort, and a cgroup below the
// user's own, where all limits above still apply. They last as long as the connection.
//
// Pitfalls:
//   - The kernel moves processes by PID, so the process must not be replaced between check and
//     move: it is stopped meanwhile (ptrace.go).
//   - If another process moves it to a third cgroup between check and move, the lender's move
//     overrides that.
//   - No process is killed. Processes left in a cgroup continue without limit and class, and count
//     against the user's quota until they end.
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

// Lender serves requests of unprivileged users.
type Lender struct {
	Socket string // path
	Group  int    // its members may connect; Everyone for all users
	// PerUser and Max are the maximum numbers of concurrent commands of one user and of all users.
	PerUser, Max int
	Class        func(name string) (*Class, error) // returns a class that users may request
	Log          *slog.Logger

	quotas quotas
}

// Everyone is the Group of all users.
const Everyone = -1

// Class is the treatment of one command by a class.
type Class struct {
	Treatments []scoped.Treatment
	Notes      []string   // unavailable features
	Done       func() any // returns the final counters
}

// Run serves requests until ctx ends, and ends all sessions with it.
func (l *Lender) Run(ctx context.Context) (err error) {
	listener, err := l.listen()
	if err != nil {
		return err
	}
	// Cgroups of a killed lender are orphaned.
	if err := scoped.RemoveStale(); err != nil {
		return errors.Join(err, listener.Close())
	}
	l.quotas = quotas{perUser: l.PerUser, max: l.Max, users: map[uint32]*quota{}}
	stop := context.AfterFunc(ctx, func() { _ = listener.Close() })
	defer stop()
	l.Log.Info("lender listening", "socket", l.Socket)
	var sessions sync.WaitGroup
	defer func() { l.settle(&sessions) }()
	for {
		conn, err := listener.AcceptUnix()
		if ctx.Err() != nil {
			return nil
		}
		if err != nil { // for example EMFILE
			l.Log.Warn("accept", "reason", err)
			_ = wait.For(ctx, acceptPause)
			continue
		}
		sessions.Go(func() { l.serve(ctx, conn) })
	}
}

// endTime bounds the wait for the end of the sessions: closing a user's descriptor can block in a
// user-controlled file system. The rest ends with the process.
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
		l.Log.Warn("some sessions did not end in time; they end with this process")
	}
}

// acceptPause avoids a busy loop on a persistent accept error.
const acceptPause = 100 * time.Millisecond

// listen opens the socket, first for root only.
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
		return nil, errors.Join(notPermitted(fmt.Errorf("set access to socket: %w", err)), opened.Close())
	}
	return opened.(*net.UnixListener), nil
}

func notPermitted(err error) error {
	if errors.Is(err, unix.EPERM) || errors.Is(err, unix.EACCES) {
		return fault.Wrap(err, fault.Permission, "run it as root")
	}
	return err
}
