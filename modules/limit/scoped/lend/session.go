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

	"weir/core/match"
	"weir/internal/fault"
	"weir/internal/wait"
	"weir/modules/limit"
	"weir/modules/limit/scoped"
)

const (
	// askTime is how long a user may take to ask, and to take an answer.
	askTime = 5 * time.Second
	// leftLook is the time between two looks whether what a command has left has ended.
	leftLook = time.Second
)

// session is one connection.
type session struct {
	*Lender
	conn *net.UnixConn
	user *unix.Ucred // who has connected
}

// serve answers one connection to its end.
func (l *Lender) serve(ctx context.Context, conn *net.UnixConn) {
	defer func() { _ = conn.Close() }()
	s := &session{l, conn, nil}
	var err error
	if s.user, err = credentials(conn); err != nil {
		return
	}
	mine, err := l.places.enter(s.user.Uid)
	if err != nil {
		s.refuse(err)
		return
	}
	defer l.places.leave(s.user.Uid)
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()
	a, process, err := s.receive()
	if err != nil {
		s.refuse(err)
		return
	}
	mine.setup.Lock()
	held, class, err := s.lend(ctx, a, process)
	mine.setup.Unlock()
	_ = process.Close()
	if err != nil {
		s.refuse(err)
		return
	}
	l.Log.Info("lent", "user", s.user.Uid, "process", s.user.Pid, "class", a.Class, "limits", a.Limits, "cgroup", held.Group.Path)
	if s.answer(scoped.Answer{Notes: class.Notes}) == nil {
		s.follow(held, class)
	}
	if err := held.Close(); err != nil {
		l.Log.Warn("end what was lent", "cgroup", held.Group.Path, "reason", err)
	}
	_ = conn.Close()
	remain(ctx, held)
}

// refuse says why not.
func (s *session) refuse(err error) {
	s.Log.Debug("refused", "user", s.user.Uid, "process", s.user.Pid, "reason", err)
	_ = s.answer(scoped.Answer{Refusal: &scoped.Refusal{Status: fault.Of(err), Error: err.Error(), Try: fault.Advice(err)}})
}

func (s *session) answer(a scoped.Answer) error {
	text, err := json.Marshal(a)
	if err != nil {
		return fmt.Errorf("answer: %w", err)
	}
	_ = s.conn.SetWriteDeadline(time.Now().Add(askTime))
	_, err = s.conn.Write(text)
	return err
}

// lend does what is asked for, and moves the process.
func (s *session) lend(ctx context.Context, a scoped.Ask, of process) (*scoped.Held, *Class, error) {
	command := scoped.Command{Args: printable(a.Command), Class: a.Class, Limits: map[limit.Direction]*limit.Limit{}}
	for direction, rate := range a.Limits {
		one := limit.Limit{Rate: rate, Shadow: a.Shadow}
		if err := one.Check(); err != nil {
			return nil, nil, fault.New(fault.Usage, "write a rate such as 100Mbit", "limit %s: %w", direction, err)
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
		return nil, nil, fault.New(fault.Usage, "ask for a limit or a class", "neither a limit nor a class is asked for")
	}
	command.Say = func(what string) { class.Notes = append(class.Notes, what) }
	parent, err := of.cgroup()
	if err != nil {
		return nil, nil, err
	}
	held, err := scoped.Hold(ctx, parent, command, scoped.Asker{PID: int(s.user.Pid), User: &s.user.Uid})
	if err != nil {
		return nil, nil, err
	}
	if err := of.move(s.user.Uid, parent, held.Group); err != nil {
		_ = held.Close()
		return nil, nil, err
	}
	return held, class, nil
}

// follow waits for the end of the connection, and tells what was counted when it is asked.
func (s *session) follow(held *scoped.Held, class *Class) {
	_ = s.conn.SetReadDeadline(time.Time{})
	if n, err := s.conn.Read(make([]byte, scoped.MaxMessage)); err != nil || n == 0 {
		return
	}
	last := scoped.Answer{Counted: map[limit.Direction]*limit.Counters{}}
	if class.Done != nil {
		last.Class, _ = json.Marshal(class.Done())
	}
	counted, err := held.Counted()
	if err != nil {
		s.Log.Warn("count", "reason", err)
	}
	for direction, c := range counted {
		last.Counted[direction] = &c
	}
	_ = s.answer(last)
}

// remain waits until a cgroup that was left with processes in it has gone.
func remain(ctx context.Context, held *scoped.Held) {
	for !held.Gone() {
		if wait.For(ctx, leftLook) != nil {
			return
		}
	}
	_ = scoped.RemoveStale() // what was noted of it
}

// printable are words that can be shown on an administrator's terminal.
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

// tooDeep says that data planes do not tell a cgroup below another one.
func tooDeep(parent, root string) bool {
	below := strings.Trim(strings.TrimPrefix(parent, root), "/")
	return below != "" && strings.Count(below, "/")+3 > match.MaxCgroupLevels
}
