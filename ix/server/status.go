// SPDX-License-Identifier: Apache-2.0

package server

import (
	"net/netip"
	"slices"
	"time"
)

// Status is the document weir-ix-status/1.
type Status struct {
	Format   string         `json:"format"`
	Exchange string         `json:"exchange"`
	Uptime   float64        `json:"uptime"`   // seconds
	Sending  bool           `json:"sending"`  // members receive tables
	Complete bool           `json:"complete"` // the feed has sent End-of-RIB since the start
	Feed     FeedStatus     `json:"feed"`
	Table    TableStatus    `json:"table"`
	Ports    []PortStatus   `json:"ports"`
	Members  []MemberStatus `json:"members"`
	Groups   int            `json:"groups"`
	Counts   Counts         `json:"counts"`
}

// FeedStatus is the session with BIRD.
type FeedStatus struct {
	Address     netip.Addr `json:"address"` // "" with a file
	File        string     `json:"file"`    // feed.rib
	Established bool       `json:"established"`
	Since       float64    `json:"since"` // seconds
	AddPathIPv4 bool       `json:"add_path_ipv4"`
	AddPathIPv6 bool       `json:"add_path_ipv6"`
	Messages    int        `json:"messages"`
	Former      bool       `json:"former"` // paths of a former session or snapshot wait for End-of-RIB
	Reason      string     `json:"reason"` // end of the last session or attempt
}

// TableStatus is the size of the routing table.
type TableStatus struct {
	Prefixes      int   `json:"prefixes"`
	Paths         int   `json:"paths"`
	AttributeSets int   `json:"attribute_sets"`
	Bytes         int64 `json:"bytes"`
}

// PortStatus is a sponsor's port.
type PortStatus struct {
	Sponsor string `json:"sponsor"`
	Port    string `json:"port"`
	Drained bool   `json:"drained"`
}

// MemberStatus is a session with a member, one for each of its addresses.
type MemberStatus struct {
	Name        string     `json:"name"`
	Address     netip.Addr `json:"address"`
	Established bool       `json:"established"`
	Since       float64    `json:"since"`      // seconds
	PathsIPv4   int        `json:"paths_ipv4"` // at most as many per prefix; 0: family not negotiated
	PathsIPv6   int        `json:"paths_ipv6"`
	AddPathIPv4 bool       `json:"add_path_ipv4"`
	AddPathIPv6 bool       `json:"add_path_ipv6"`
	Synced      bool       `json:"synced"`  // the table is sent
	Sent        int64      `json:"sent"`    // bytes
	Behind      int        `json:"behind"`  // messages blocks not written yet
	Ignored     int64      `json:"ignored"` // UPDATEs of the member
	Reason      string     `json:"reason"`  // end of the last session
}

// Status returns the state of the server.
func (s *Server) Status() Status {
	x := s.engine
	e := x.exchange
	doc := Status{Format: "weir-ix-status/1", Exchange: e.Name, Uptime: time.Since(s.started).Seconds()}
	s.feed.mu.Lock()
	doc.Feed = FeedStatus{Address: e.Feed.Bird, File: e.Feed.RIB, Established: s.feed.current != nil, Messages: s.feed.messages, Reason: describe(s.feed.last)}
	if s.feed.current != nil {
		doc.Feed.Since = time.Since(s.feed.since).Seconds()
	}
	s.feed.mu.Unlock()
	x.mu.Lock()
	stats := x.table.rib.Stats()
	doc.Table = TableStatus{stats.Prefixes, stats.Paths, stats.AttributeSets, stats.Bytes}
	doc.Sending, doc.Complete, doc.Groups, doc.Counts = x.open, x.complete, len(x.groups), x.counts
	doc.Feed.Former = len(s.feed.former)+len(s.feed.partial) > 0
	doc.Feed.AddPathIPv4, doc.Feed.AddPathIPv6 = s.feed.addPath[0], s.feed.addPath[1]
	for _, g := range x.groups {
		doc.Counts.TooLarge += g.tooLarge
	}
	for _, p := range x.all {
		doc.Ports = append(doc.Ports, PortStatus{p.Sponsor, p.Name, p.Drained})
	}
	x.mu.Unlock()
	for i := range e.Members {
		for _, a := range e.Members[i].Addresses {
			doc.Members = append(doc.Members, s.memberStatus(e.Members[i].Name, a))
		}
	}
	slices.SortStableFunc(doc.Members, func(a, b MemberStatus) int { return a.Address.Compare(b.Address) })
	return doc
}

func (s *Server) memberStatus(name string, a netip.Addr) MemberStatus {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := MemberStatus{Name: name, Address: a, Reason: s.failed[a]}
	l := s.links[a]
	if l == nil || l.member == nil {
		return st
	}
	m := l.member
	st.Established, st.Since, st.Synced = true, time.Since(m.since).Seconds(), m.synced.Load()
	st.PathsIPv4, st.PathsIPv6 = m.terms.limits[0], m.terms.limits[1]
	st.AddPathIPv4, st.AddPathIPv6 = m.terms.out.AddPathIPv4, m.terms.out.AddPathIPv6
	st.Sent, st.Ignored = m.sent.Load(), m.routes.Load()
	stream := &m.group.stream
	stream.mu.Lock()
	st.Behind = int(stream.head() - min(m.cursor, stream.head()))
	stream.mu.Unlock()
	return st
}
