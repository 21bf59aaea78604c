// SPDX-License-Identifier: Apache-2.0

package lend

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"strings"
	"time"
	"unicode"

	"golang.org/x/sys/unix"

	"weir/internal/direction"
	"weir/internal/fault"
	"weir/internal/wait"
	"weir/modules/limit/police"
	"weir/modules/limit/scoped"
)

const (
	// messageTimeout bounds the time for a user's request and for writing a response.
	messageTimeout = 5 * time.Second
	// emptyInterval is the poll interval for the end of remaining processes.
	emptyInterval = time.Second
)

// session is one connection.
type session struct {
	*Lender
	conn *net.UnixConn
	user *unix.Ucred // the peer's credentials
}

// serve handles one connection to its end.
func (l *Lender) serve(ctx context.Context, conn *net.UnixConn) {
	defer func() { _ = conn.Close() }()
	s := &session{l, conn, nil}
	var err error
	if s.user, err = credentials(conn); err != nil {
		return
	}
	mine, err := l.quotas.acquire(s.user.Uid)
	if err != nil {
		s.reject(err)
		return
	}
	defer l.quotas.release(s.user.Uid)
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()
	a, process, err := s.receive()
	if err != nil {
		s.reject(err)
		return
	}
	mine.setup.Lock()
	scope, class, err := s.lend(ctx, a, process)
	mine.setup.Unlock()
	_ = process.Close()
	if err != nil {
		s.reject(err)
		return
	}
	l.Log.Info("session started", "user", s.user.Uid, "process", s.user.Pid, "class", a.Class, "limits", a.Limits, "cgroup", scope.Group.Path)
	if s.respond(scoped.Response{Notes: class.Notes}) == nil {
		s.awaitClose(scope, class)
	}
	if err := scope.Close(); err != nil {
		l.Log.Warn("end session", "cgroup", scope.Group.Path, "reason", err)
	}
	_ = conn.Close()
	awaitEmpty(ctx, scope)
}

// reject sends an error to the user.
func (s *session) reject(err error) {
	s.Log.Debug("rejected", "user", s.user.Uid, "process", s.user.Pid, "reason", err)
	_ = s.respond(scoped.Response{Rejection: &scoped.Rejection{Status: fault.Of(err), Error: err.Error(), Try: fault.Advice(err)}})
}

func (s *session) respond(a scoped.Response) error {
	text, err := json.Marshal(a)
	if err != nil {
		return fmt.Errorf("encode response: %w", err)
	}
	_ = s.conn.SetWriteDeadline(time.Now().Add(messageTimeout))
	_, err = s.conn.Write(text)
	return err
}

// lend applies the requested limits and class, and moves the process.
func (s *session) lend(ctx context.Context, a scoped.Request, of process) (*scoped.Scope, *Class, error) {
	command := scoped.Command{Args: printable(a.Command), Class: a.Class, Limits: map[direction.Direction]*police.Limit{}}
	for direction, rate := range a.Limits {
		one := police.Limit{Rate: rate, Shadow: a.Shadow}
		if err := one.Check(); err != nil {
			return nil, nil, fault.New(fault.Usage, "give a rate such as 100Mbit", "limit %s: %w", direction, err)
		}
		command.Limits[direction] = &one
	}
	class := &Class{}
	if a.Class != "" {
		var err error
		if class, err = s.Class(a.Class); err != nil {
			return nil, nil, err
		}
		command.Treatments = class.Treatments
	}
	if len(command.Limits) == 0 && len(command.Treatments) == 0 {
		return nil, nil, fault.New(fault.Usage, "request a limit or a class", "the request has neither a limit nor a class")
	}
	command.Notify = func(message string) { class.Notes = append(class.Notes, message) }
	parent, err := of.cgroup()
	if err != nil {
		return nil, nil, err
	}
	scope, err := scoped.NewScope(ctx, parent, command, scoped.Requester{PID: int(s.user.Pid), User: &s.user.Uid})
	if err != nil {
		return nil, nil, err
	}
	if err := of.move(s.user.Uid, parent, scope.Group); err != nil {
		_ = scope.Close()
		return nil, nil, err
	}
	return scope, class, nil
}

// awaitClose waits for the end of the connection, and sends the counters on request.
func (s *session) awaitClose(scope *scoped.Scope, class *Class) {
	_ = s.conn.SetReadDeadline(time.Time{})
	if n, err := s.conn.Read(make([]byte, scoped.MaxMessage)); err != nil || n == 0 {
		return
	}
	last := scoped.Response{Counted: map[direction.Direction]*police.Counters{}}
	if class.Done != nil {
		last.Class, _ = json.Marshal(class.Done())
	}
	counted, err := scope.Counted()
	if err != nil {
		s.Log.Warn("count", "reason", err)
	}
	for direction, c := range counted {
		last.Counted[direction] = &c
	}
	_ = s.respond(last)
}

// awaitEmpty waits until the remaining processes have ended and the cgroup is removed.
func awaitEmpty(ctx context.Context, scope *scoped.Scope) {
	for !scope.Gone() {
		if wait.For(ctx, emptyInterval) != nil {
			return
		}
	}
	_ = scoped.RemoveStale() // its registry entry
}

// printable replaces unprintable characters, since administrators see the words on a terminal.
func printable(words []string) []string {
	for i, word := range words {
		words[i] = strings.Map(func(r rune) rune {
			if !unicode.IsPrint(r) {
				return unicode.ReplacementChar
			}
			return r
		}, word)
	}
	return words
}
