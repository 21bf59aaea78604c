// SPDX-License-Identifier: Apache-2.0

package server

import (
	"cmp"
	"context"
	"crypto/sha256"
	"fmt"
	"net"
	"slices"
	"time"

	"weir/netconf/rpcerr"
	"weir/netconf/schema"
	"weir/netconf/tree"
	"weir/netconf/xmltree"
)

const monitoring = "ietf-netconf-monitoring"

// contentID identifies the set of modules and features.
func (s *Server) contentID() string {
	sum := sha256.New()
	for _, m := range s.set.Modules {
		fmt.Fprintln(sum, m.Name, m.Revision, m.Features, m.Import)
	}
	return fmt.Sprintf("%x", sum.Sum(nil)[:8])
}

// state is the server's own state: monitoring (RFC 6022), library (RFC 8525 and 7895), counters of
// access control.
func (s *Server) state(wanted func(name string) bool) *tree.Node {
	return tree.Make(s.set, func(m *tree.Maker) {
		if wanted("netconf-state") {
			m.In(monitoring+":netconf-state", s.monitoringState)
		}
		if wanted("yang-library") {
			m.In("ietf-yang-library:yang-library", s.library)
		}
		if wanted("modules-state") {
			m.In("ietf-yang-library:modules-state", s.modulesState)
		}
		if wanted("nacm") {
			m.In("ietf-netconf-acm:nacm", func(m *tree.Maker) {
				m.Uint("denied-operations", uint64(s.denials.Operations.Load()))
				m.Uint("denied-data-writes", uint64(s.denials.Writes.Load()))
				m.Uint("denied-notifications", uint64(s.denials.Notifications.Load()))
			})
		}
	})
}

func (s *Server) monitoringState(m *tree.Maker) {
	m.In("capabilities", func(m *tree.Maker) {
		for _, uri := range s.Capabilities() {
			m.Leaf("capability", uri)
		}
	})
	s.mu.Lock()
	defer s.mu.Unlock()
	m.In("datastores", s.datastoreState)
	m.In("schemas", func(m *tree.Maker) {
		for _, module := range s.set.Modules {
			m.In("schema", func(m *tree.Maker) {
				m.Leaf("identifier", module.Name).Leaf("version", module.Revision).Leaf("format", monitoring+":yang")
				m.Leaf("namespace", module.Namespace).Leaf("location", "NETCONF")
			})
		}
	})
	m.In("sessions", func(m *tree.Maker) {
		all := make([]*session, 0, len(s.sessions))
		for _, c := range s.sessions {
			all = append(all, c)
		}
		slices.SortFunc(all, func(a, b *session) int { return cmp.Compare(a.id, b.id) })
		for _, c := range all {
			m.In("session", c.state)
		}
	})
	m.In("statistics", func(m *tree.Maker) {
		m.Leaf("netconf-start-time", stamp(s.started))
		m.Uint("in-bad-hellos", s.counts.badHellos.Load()).Uint("in-sessions", s.counts.inSessions.Load())
		m.Uint("dropped-sessions", s.counts.dropped.Load())
		s.counts.write(m)
	})
}

func (s *Server) datastoreState(m *tree.Maker) {
	names := []string{runningName, candidateName}
	if s.startup != nil {
		names = append(names, startupName)
	}
	for _, name := range names {
		m.In("datastore", func(m *tree.Maker) {
			m.Leaf("name", name)
			holder := s.locks[name]
			if holder == 0 {
				return
			}
			m.In("locks", func(m *tree.Maker) {
				m.In("global-lock", func(m *tree.Maker) {
					m.Uint("locked-by-session", uint64(holder)).Leaf("locked-time", stamp(s.lockTimes[name]))
				})
			})
		})
	}
}

func (c *session) state(m *tree.Maker) {
	m.Uint("session-id", uint64(c.id)).Leaf("transport", monitoring+":"+c.peer.Transport).Leaf("username", c.peer.User.Name)
	if host, _, err := net.SplitHostPort(c.peer.Remote); err == nil {
		m.Leaf("source-host", host)
	}
	m.Leaf("login-time", stamp(c.began))
	c.counts.write(m)
}

func (n *counters) write(m *tree.Maker) {
	m.Uint("in-rpcs", n.inRPCs.Load()).Uint("in-bad-rpcs", n.inBad.Load())
	m.Uint("out-rpc-errors", n.outErrors.Load()).Uint("out-notifications", n.outNotes.Load())
}

// stamp is a date-and-time in canonical form.
func stamp(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05Z") }

func (s *Server) library(m *tree.Maker) {
	m.In("module-set", func(m *tree.Maker) {
		m.Leaf("name", "all")
		for _, module := range s.set.Modules {
			m.In(map[bool]string{false: "module", true: "import-only-module"}[module.Import], func(m *tree.Maker) {
				m.Leaf("name", module.Name).Leaf("revision", module.Revision).Leaf("namespace", module.Namespace)
				features(m, module)
			})
		}
	})
	m.In("schema", func(m *tree.Maker) { m.Leaf("name", "all").Leaf("module-set", "all") })
	stores := []string{runningName, candidateName}
	if s.config.StateDir != "" {
		stores = append(stores, startupName)
	}
	for _, name := range stores {
		m.In("datastore", func(m *tree.Maker) { m.Leaf("name", "ietf-datastores:"+name).Leaf("schema", "all") })
	}
	m.Leaf("content-id", s.contentID())
}

func features(m *tree.Maker, module *schema.Module) {
	if module.Import {
		return
	}
	for _, f := range module.Features {
		m.Leaf("feature", f)
	}
}

func (s *Server) modulesState(m *tree.Maker) {
	m.Leaf("module-set-id", s.contentID())
	for _, module := range s.set.Modules {
		m.In("module", func(m *tree.Maker) {
			m.Leaf("name", module.Name).Leaf("revision", module.Revision).Leaf("namespace", module.Namespace)
			features(m, module)
			m.Leaf("conformance-type", map[bool]string{false: "implement", true: "import"}[module.Import])
		})
	}
}

func (c *session) getSchema(_ context.Context, x *xmltree.Element) (reply, []*rpcerr.Error) {
	name, version := parameter(x, "identifier", ""), parameter(x, "version", "")
	format := parameter(x, "format", "yang")
	m := c.server.set.ByName(name)
	switch {
	case name == "":
		return nil, one(rpcerr.Protocol(rpcerr.MissingElement, "the parameter identifier is missing").With("bad-element", "identifier"))
	case m == nil || version != "" && version != m.Revision, format[len(format)-min(4, len(format)):] != "yang":
		return nil, one(rpcerr.New(rpcerr.InvalidValue, "there is no schema %s of version %q and format %s", name, version, format).With("bad-element", "identifier"))
	}
	return func(w *xmltree.Writer) { w.Leaf(monitoringSpace, "data", m.Source) }, nil
}
