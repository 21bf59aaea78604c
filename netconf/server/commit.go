// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"strconv"
	"time"

	"weir/netconf/rpcerr"
	"weir/netconf/tree"
	"weir/netconf/xmltree"
)

// confirmation is a confirmed commit that waits (RFC 6241 section 8.4).
type confirmation struct {
	before  *tree.Node
	session uint32
	persist string
	timer   *time.Timer
	timeout uint64 // s
}

func (c *session) commit(ctx context.Context, x *xmltree.Element) (reply, []*rpcerr.Error) {
	confirmed := x.Kid(rpcerr.Base, "confirmed") != nil
	seconds, err := confirmTimeout(x, confirmed)
	if err != nil {
		return nil, one(err)
	}
	checker := c.access()
	s := c.server
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, name := range []string{runningName, candidateName} {
		if err := c.held(name); err != nil {
			return nil, one(err)
		}
	}
	if err := s.mayConfirm(c, parameter(x, "persist-id", "")); err != nil {
		return nil, one(err)
	}
	if err := checker.Write(s.running, s.candidate); err != nil {
		return nil, one(err)
	}
	before := s.running
	if err := s.activate(ctx, s.candidate); err != nil {
		return nil, one(err)
	}
	if before != s.running {
		s.configChanged(c, runningName, changesOf(before, s.running))
	}
	pending := s.confirm
	if pending != nil {
		pending.timer.Stop()
		s.confirm, before = nil, pending.before
	}
	switch {
	case confirmed:
		s.await(c, before, parameter(x, "persist", ""), seconds)
		s.confirmEvent(c, map[bool]string{true: "start", false: "extend"}[pending == nil], seconds)
	case pending != nil:
		s.confirmEvent(c, "complete", 0)
	}
	return nil, nil
}

func confirmTimeout(x *xmltree.Element, confirmed bool) (uint64, *rpcerr.Error) {
	seconds, err := strconv.ParseUint(parameter(x, "confirm-timeout", "600"), 10, 32)
	if err != nil || seconds == 0 {
		return 0, rpcerr.Protocol(rpcerr.InvalidValue, "confirm-timeout is a number of seconds, 1 at least").With("bad-element", "confirm-timeout")
	}
	if !confirmed && x.Kid(rpcerr.Base, "persist") != nil {
		return 0, rpcerr.Protocol(rpcerr.BadElement, "persist needs confirmed").With("bad-element", "persist")
	}
	return seconds, nil
}

// mayConfirm checks that a commit comes from the session or carries the identifier of a pending
// one; mu is held.
func (s *Server) mayConfirm(c *session, persist string) *rpcerr.Error {
	p := s.confirm
	switch {
	case p == nil && persist != "", p != nil && persist != p.persist:
		return rpcerr.Protocol(rpcerr.InvalidValue, "persist-id does not match a pending confirmed commit").With("bad-element", "persist-id")
	case p != nil && p.persist == "" && p.session != c.id:
		return rpcerr.Protocol(rpcerr.InUse, "a confirmed commit of session %d is pending", p.session)
	}
	return nil
}

// activate makes a datastore the running one; mu is held.
func (s *Server) activate(ctx context.Context, root *tree.Node) *rpcerr.Error {
	if root == s.running {
		return nil
	}
	if err := s.check(ctx, root, s.running); err != nil {
		return err
	}
	if err := s.config.Device.Apply(ctx, s.running, root); err != nil {
		return err
	}
	if s.candidate == s.running {
		s.candidate = root
	}
	s.setRunning(root)
	return nil
}

// await starts the timer of a confirmed commit; mu is held.
func (s *Server) await(c *session, before *tree.Node, persist string, seconds uint64) {
	p := &confirmation{before: before, session: c.id, persist: persist, timeout: seconds}
	p.timer = time.AfterFunc(time.Duration(seconds)*time.Second, func() {
		s.mu.Lock()
		current := s.confirm == p
		s.mu.Unlock()
		if current {
			s.rollBack("its time ran out", "timeout")
		}
	})
	s.confirm = p
}

// rollBack restores the running datastore from before a confirmed commit. Traffic restarts as after
// any other change.
func (s *Server) rollBack(reason, event string) *rpcerr.Error {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.confirm
	if p == nil {
		return nil
	}
	p.timer.Stop()
	s.confirm = nil
	changed := s.running
	if err := s.activate(context.Background(), p.before); err != nil {
		s.log.Error("confirmed commit not rolled back", "reason", reason, "error", err)
		return err
	}
	s.log.Info("confirmed commit rolled back", "reason", reason)
	s.configChanged(nil, runningName, changesOf(changed, s.running))
	s.confirmEvent(nil, event, 0)
	return nil
}

func (c *session) cancelCommit(_ context.Context, x *xmltree.Element) (reply, []*rpcerr.Error) {
	s := c.server
	s.mu.Lock()
	pending := s.confirm != nil
	err := s.mayConfirm(c, parameter(x, "persist-id", ""))
	if err == nil {
		err = c.held(runningName)
	}
	s.mu.Unlock()
	switch {
	case err != nil:
		return nil, one(err)
	case !pending:
		return nil, one(rpcerr.Protocol(rpcerr.Failed, "no confirmed commit is pending"))
	}
	return nil, one(s.rollBack("it was cancelled", "cancel"))
}

func (c *session) killSession(_ context.Context, x *xmltree.Element) (reply, []*rpcerr.Error) {
	id, err := strconv.ParseUint(parameter(x, "session-id", ""), 10, 32)
	s := c.server
	s.mu.Lock()
	victim := s.sessions[uint32(id)]
	s.mu.Unlock()
	switch {
	case err != nil || id == 0 || uint32(id) == c.id:
		return nil, one(rpcerr.Protocol(rpcerr.InvalidValue, "session-id is not that of another session").With("bad-element", "session-id"))
	case victim == nil:
		return nil, one(rpcerr.Protocol(rpcerr.InvalidValue, "there is no session %d", id).With("bad-element", "session-id"))
	}
	victim.killer = c.id
	victim.end("killed")
	return nil, nil
}
