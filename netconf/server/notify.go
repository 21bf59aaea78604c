// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"fmt"
	"net"
	"sync"
	"time"

	"weir/netconf/rpcerr"
	"weir/netconf/schema"
	"weir/netconf/tree"
	"weir/netconf/xmltree"
)

// hub hands events to subscribed sessions. The zero value is ready.
type hub struct {
	mu    sync.Mutex
	feeds map[*subscription]bool
}

// event is one notification.
type event struct {
	at   time.Time
	node *tree.Node
}

// subscription is a session's stream of events.
type subscription struct {
	session *session
	events  chan event
	filter  *xmltree.Element
	quit    chan struct{}
}

// backlog is how many events a client may lag behind before it loses its session.
const backlog = 1000

func (h *hub) join(f *subscription) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.feeds == nil {
		h.feeds = map[*subscription]bool{}
	}
	h.feeds[f] = true
}

func (h *hub) leave(f *subscription) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.feeds[f] {
		delete(h.feeds, f)
		close(f.quit)
	}
}

func (h *hub) send(e event) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for f := range h.feeds {
		select {
		case f.events <- e:
		default:
			f.session.server.log.Warn("client lags behind the notifications: session closed", "session", f.session.id)
			go f.session.end("dropped")
		}
	}
}

// Notify sends a notification to all subscribers.
func (s *Server) Notify(module, name string, build func(*tree.Maker)) {
	m := s.set.ByName(module)
	if m == nil {
		return
	}
	if note := s.set.Notes[m.Namespace+" "+name]; note != nil {
		s.notes.send(event{time.Now(), tree.MakeBelow(s.set, note, build)})
	}
}

// createSubscription is RFC 5277 with interleave. There is no replay.
func (c *session) createSubscription(ctx context.Context, x *xmltree.Element) (reply, []*rpcerr.Error) {
	if c.feed != nil {
		return nil, one(rpcerr.Protocol(rpcerr.Failed, "this session has a subscription"))
	}
	f := &subscription{session: c, events: make(chan event, backlog), quit: make(chan struct{})}
	for _, k := range x.Kids {
		switch {
		case k.Local == "stream" && k.Value() == "NETCONF":
		case k.Local == "stream":
			return nil, one(rpcerr.Protocol(rpcerr.InvalidValue, "there is no stream %q: use NETCONF", k.Value()).With("bad-element", "stream"))
		case k.Local == "filter":
			if kind, _ := k.Attr("", "type"); kind == "xpath" {
				return nil, one(rpcerr.Protocol(rpcerr.NotSupported, "notifications have subtree filters alone").With("bad-element", "filter"))
			}
			f.filter = k
		case k.Local == "startTime", k.Local == "stopTime":
			return nil, one(rpcerr.Protocol(rpcerr.NotSupported, "the stream has no replay").With("bad-element", k.Local))
		default:
			return nil, one(rpcerr.Protocol(rpcerr.UnknownElement, "create-subscription has no parameter %s", k.Local).With("bad-element", k.Local))
		}
	}
	c.feed = f
	c.server.notes.join(f)
	go f.run(c.server.policyFor(c))
	return nil, nil
}

// policyFor returns a check of notifications that follows changes of the policy.
func (s *Server) policyFor(c *session) func(*schema.Node) bool {
	return func(note *schema.Node) bool {
		s.mu.Lock()
		policy := s.policy
		s.mu.Unlock()
		return policy.For(c.peer.User, &s.denials).MayNotify(note)
	}
}

func (f *subscription) run(permits func(*schema.Node) bool) {
	for {
		select {
		case <-f.quit:
			return
		case e := <-f.events:
			if !permits(e.node.Schema) || !f.selects(e) {
				continue
			}
			f.session.count(func(n *counters) { n.outNotes.Add(1) })
			if f.session.send(notification(f.session.server.set, e)) != nil {
				return
			}
		}
	}
}

func (f *subscription) selects(e event) bool {
	if f.filter == nil {
		return true
	}
	top := &tree.Node{Schema: f.session.server.set.Top, Kids: []*tree.Node{e.node}}
	return len(tree.Subtree(top, f.filter).Kids) > 0
}

func notification(set *schema.Set, e event) string {
	var w xmltree.Writer
	w.Start(notificationSpace, "notification")
	w.Leaf(notificationSpace, "eventTime", e.at.UTC().Format("2006-01-02T15:04:05.000000Z"))
	tree.Encode(&w, set, &tree.Node{Schema: set.Top, Kids: []*tree.Node{e.node}})
	w.End()
	return w.String()
}

const eventsModule = "ietf-netconf-notifications"

// by writes the parameters that identify a session; nil is the server itself.
func by(m *tree.Maker, c *session) {
	if c == nil {
		m.Leaf("server", "")
		return
	}
	m.Leaf("username", c.peer.User.Name).Uint("session-id", uint64(c.id))
	if host, _, err := net.SplitHostPort(c.peer.Remote); err == nil {
		m.Leaf("source-host", host)
	}
}

func (s *Server) sessionStarted(c *session) {
	s.log.Info("session started", "session", c.id, "user", c.peer.User.Name, "remote", c.peer.Remote)
	s.Notify(eventsModule, "netconf-session-start", func(m *tree.Maker) { by(m, c) })
}

func (s *Server) sessionEnded(c *session) {
	s.log.Info("session ended", "session", c.id, "user", c.peer.User.Name, "reason", c.reason)
	s.Notify(eventsModule, "netconf-session-end", func(m *tree.Maker) {
		by(m, c)
		if c.reason == "killed" {
			m.Uint("killed-by", uint64(c.killer))
		}
		m.Leaf("termination-reason", c.reason)
	})
}

// edits is the content of the list edit in netconf-config-change.
type edits []tree.Change

// maxEdits bounds the list edit: RFC 6470 allows to leave entries out.
const maxEdits = 100

func changesOf(old, new *tree.Node) (all edits) {
	tree.Diff(old, new, func(c tree.Change) bool {
		all = append(all, c)
		return len(all) < maxEdits
	})
	return all
}

func (s *Server) configChanged(c *session, store string, changes edits) {
	s.Notify(eventsModule, "netconf-config-change", func(m *tree.Maker) {
		m.In("changed-by", func(m *tree.Maker) { by(m, c) })
		m.Leaf("datastore", store)
		for _, change := range changes {
			m.In("edit", func(m *tree.Maker) {
				text, prefixes := change.Path.XPath()
				m.Value("target", schema.Value{Text: text, Prefixes: prefixes})
				m.Leaf("operation", string(change.Operation))
			})
		}
	})
}

// confirmEvent reports progress of a confirmed commit; seconds is 0 unless it began or was
// extended.
func (s *Server) confirmEvent(c *session, what string, seconds uint64) {
	s.Notify(eventsModule, "netconf-confirmed-commit", func(m *tree.Maker) {
		if what != "timeout" && c != nil {
			by(m, c)
		}
		m.Leaf("confirm-event", what)
		if seconds > 0 {
			m.Leaf("timeout", fmt.Sprint(seconds))
		}
	})
}
