// SPDX-License-Identifier: Apache-2.0

package server

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"weir/netconf/access"
	"weir/netconf/framing"
	"weir/netconf/rpcerr"
	"weir/netconf/xmltree"
)

// Peer is an authenticated client.
type Peer struct {
	User      access.User
	Remote    string // its address
	Transport string // an identity of ietf-netconf-monitoring, such as netconf-ssh
}

// session is one client. Its own goroutine reads requests; writes may come from others.
type session struct {
	id      uint32
	server  *Server
	peer    Peer
	stream  io.ReadWriteCloser
	reader  *framing.Reader
	began   time.Time
	chunked bool
	reason  string // why it ended: closed, killed, dropped, timeout or other
	killer  uint32
	once    sync.Once
	counts  counters
	checker *access.Checker // of the policy below
	policy  *access.Policy

	writing sync.Mutex // guards the stream's output
	feed    *subscription
}

// Serve runs one session until it ends.
func (s *Server) Serve(ctx context.Context, peer Peer, stream io.ReadWriteCloser) error {
	one := &session{
		id: s.nextID.Add(1), server: s, peer: peer, stream: stream, began: time.Now(), reason: "dropped",
		reader: framing.NewReader(stream, framing.MaxMessage),
	}
	defer func() { _ = stream.Close() }()
	if !s.admit(one) {
		return errors.New("too many sessions")
	}
	defer s.dismiss(one)
	if err := one.greet(); err != nil {
		s.counts.badHellos.Add(1)
		return fmt.Errorf("session %d: hello: %w", one.id, err)
	}
	s.counts.inSessions.Add(1)
	s.sessionStarted(one)
	return one.loop(ctx)
}

func (s *Server) admit(one *session) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.sessions) >= s.config.MaxSessions {
		return false
	}
	s.sessions[one.id] = one
	return true
}

// greet exchanges hellos. The base:1.0 end mark frames both.
func (c *session) greet() error {
	var w xmltree.Writer
	w.Start(rpcerr.Base, "hello")
	w.Start(rpcerr.Base, "capabilities")
	for _, uri := range c.server.Capabilities() {
		w.Leaf(rpcerr.Base, "capability", uri)
	}
	w.End()
	w.Leaf(rpcerr.Base, "session-id", fmt.Sprint(c.id))
	w.End()
	if err := c.send(w.String()); err != nil {
		return err
	}
	timer := time.AfterFunc(c.server.config.WriteTimeout, func() { c.end("timeout") })
	defer timer.Stop()
	message, err := c.reader.Read()
	if err != nil {
		return err
	}
	hello, err := xmltree.Parse(bytes.TrimSpace(message), xmltree.Limits{})
	if err != nil {
		return err
	}
	// a hello without a namespace is accepted: old clients send it
	if hello.Local != "hello" || hello.Space != rpcerr.Base && hello.Space != "" {
		return fmt.Errorf("the first message is %s", hello.Local)
	}
	return c.agree(hello)
}

// agree chooses the protocol version.
func (c *session) agree(hello *xmltree.Element) error {
	if hello.Kid(hello.Space, "session-id") != nil {
		return errors.New("a client sends no session-id")
	}
	base := false
	if list := hello.Kid(hello.Space, "capabilities"); list != nil {
		for _, k := range list.Kids {
			uri := strings.TrimSpace(k.Text)
			base = base || uri == "urn:ietf:params:netconf:base:1.0" || uri == "urn:ietf:params:netconf:base:1.1"
			c.chunked = c.chunked || uri == "urn:ietf:params:netconf:base:1.1"
		}
	}
	if !base {
		return errors.New("the client supports neither base:1.0 nor base:1.1")
	}
	c.reader.SetChunked(c.chunked)
	return nil
}

func (c *session) loop(ctx context.Context) error {
	for {
		message, err := c.reader.Read()
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case errors.Is(err, framing.ErrTooBig):
			_ = c.send(c.rejection(rpcerr.TooBig, err))
			return fmt.Errorf("session %d: %w", c.id, err)
		case err != nil:
			return fmt.Errorf("session %d: %w", c.id, err)
		}
		if !c.handle(ctx, message) {
			return nil
		}
	}
}

// rejection is a reply to a message that is no request.
func (c *session) rejection(tag rpcerr.Tag, err error) string {
	c.count(func(n *counters) { n.inBad.Add(1); n.outErrors.Add(1) })
	e := rpcerr.New(tag, "%s", err)
	e.Type = "rpc"
	var w xmltree.Writer
	w.Start(rpcerr.Base, "rpc-reply")
	e.Write(&w)
	w.End()
	return w.String()
}

func (c *session) count(add func(*counters)) {
	add(&c.counts)
	add(&c.server.counts)
}

// handle answers one message; it reports whether the session goes on.
func (c *session) handle(ctx context.Context, message []byte) bool {
	request, err := xmltree.Parse(message, xmltree.Limits{})
	switch {
	case errors.Is(err, xmltree.ErrTooBig):
		return c.send(c.rejection(rpcerr.TooBig, err)) == nil
	case err != nil:
		return c.send(c.rejection(rpcerr.Malformed, err)) == nil
	case request.Local != "rpc" || request.Space != rpcerr.Base:
		return c.send(c.rejection(rpcerr.Malformed, fmt.Errorf("the message is {%s}%s, not rpc", request.Space, request.Local))) == nil
	}
	c.count(func(n *counters) { n.inRPCs.Add(1) })
	out, errs, goesOn := c.rpc(ctx, request)
	var w xmltree.Writer
	w.Start(rpcerr.Base, "rpc-reply", replyAttributes(request)...)
	switch {
	case len(errs) > 0:
		c.count(func(n *counters) { n.outErrors.Add(1) })
		for _, e := range errs {
			e.Write(&w)
		}
	case out == nil:
		w.Leaf(rpcerr.Base, "ok", "")
	default:
		out(&w)
	}
	w.End()
	if c.send(w.String()) != nil {
		return false
	}
	if !goesOn {
		c.reason = "closed"
	}
	return goesOn
}

// replyAttributes returns all attributes of a request, with the namespaces that they need.
func replyAttributes(request *xmltree.Element) (attributes []string) {
	declared := map[string]bool{"xml": true}
	for _, a := range request.Attrs {
		name := a.Local
		if a.Prefix != "" {
			name = a.Prefix + ":" + name
			if !declared[a.Prefix] {
				declared[a.Prefix] = true
				attributes = append(attributes, "xmlns:"+a.Prefix, a.Space)
			}
		}
		attributes = append(attributes, name, a.Value)
	}
	return attributes
}

// send writes one message. A client that does not read for the write timeout loses its session.
func (c *session) send(message string) error {
	c.writing.Lock()
	defer c.writing.Unlock()
	timer := time.AfterFunc(c.server.config.WriteTimeout, func() {
		c.server.log.Warn("client does not read: session closed", "session", c.id, "user", c.peer.User.Name)
		c.end("timeout")
	})
	defer timer.Stop()
	_, err := c.stream.Write(framing.Append(nil, message, c.chunked))
	return err
}

// end closes the session's stream; the reading goroutine then returns.
func (c *session) end(reason string) {
	c.once.Do(func() {
		c.reason = reason
		_ = c.stream.Close()
	})
}

// dismiss releases everything that a session holds (RFC 6241 sections 7.5 and 8.4.1).
func (s *Server) dismiss(one *session) {
	s.mu.Lock()
	delete(s.sessions, one.id)
	for store, holder := range s.locks {
		if holder == one.id {
			delete(s.locks, store)
			if store == candidateName {
				s.candidate = s.running
			}
		}
	}
	back := s.confirm != nil && s.confirm.session == one.id && s.confirm.persist == ""
	s.mu.Unlock()
	if back {
		s.rollBack("the session ended", "cancel")
	}
	if one.feed != nil {
		s.notes.leave(one.feed)
	}
	if one.reason == "dropped" {
		s.counts.dropped.Add(1)
	}
	s.sessionEnded(one)
}
