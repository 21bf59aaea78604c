// SPDX-License-Identifier: Apache-2.0

// Package server is the path server of an exchange: it receives all paths of the sponsors from BIRD
// on one internal session and sends each member at most N of them.
//
//	BIRD --feed--> table --choose--> group (stream, chunks) --member--> routers
//
// Members with equal settings and capabilities are a group and receive the same bytes. Nothing is
// stored per member: a change is the difference of two choices.
//
// Failures: without BIRD the paths stay for `choose.stale`. After a restart the snapshot is sent at
// once, and End-of-RIB waits for that of BIRD, so that members with graceful restart lose nothing.
// A member that reads slower than the table changes receives the table again.
//
// Pitfall: a member's own routes are ignored.
package server

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"math"
	"net"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"weir/internal/fault"
	"weir/internal/wait"
	"weir/ix/config"
	"weir/ix/session"
	"weir/ix/wire"
)

// Options of a [Server]. Zero durations are the defaults.
type Options struct {
	State    string        // folder of snapshot and drained sponsors; "" for none
	Port     int           // of BGP; 0: 179
	Hold     time.Duration // offered hold time; 0: 90 s
	Retry    time.Duration // between attempts to reach BIRD; 0: 5 s
	Coalesce time.Duration // changes sent together; 0: 20 ms
	Save     time.Duration // between snapshots; 0: 1 minute
	OpenWait time.Duration // for the OPEN of a peer; 0: 1 minute
	Log      *slog.Logger  // nil: none
}

// restartTime is the time for which members keep the paths of a restarting Weir (RFC 4724).
const restartTime = 300 * time.Second

// Server is a path server. Create one with [New].
type Server struct {
	options Options
	log     *slog.Logger
	engine  *engine
	feed    *feed
	stale   *time.Timer
	started time.Time

	members map[netip.Addr]*config.Member
	mu      sync.Mutex
	links   map[netip.Addr]*link    // by address of the member
	drained map[string]bool         // orders, by sponsor or port
	failed  map[netip.Addr]string   // end of the last session, by member address
	opening map[netip.Addr]net.Conn // before the OPEN, one for each member address
	saving  chan struct{}
	saved   time.Time // contact of the feed in the last snapshot; of the saver
}

// link is a connection of a member, from its OPEN on.
type link struct {
	conn   net.Conn
	member *member // nil before the session is established
}

// New returns a server. The exchange must have feed, listen and router_id.
func New(e *config.Exchange, o Options) (*Server, error) {
	if err := required(e); err != nil {
		return nil, err
	}
	set(&o.Port, 179)
	set(&o.Hold, 90*time.Second)
	set(&o.Retry, 5*time.Second)
	set(&o.Coalesce, 20*time.Millisecond)
	set(&o.Save, time.Minute)
	set(&o.OpenWait, time.Minute)
	s := &Server{options: o, log: o.Log, started: time.Now(), members: map[netip.Addr]*config.Member{}, links: map[netip.Addr]*link{},
		failed: map[netip.Addr]string{}, opening: map[netip.Addr]net.Conn{}, saving: make(chan struct{}, 1)}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	for i := range e.Members {
		for _, a := range e.Members[i].Addresses {
			s.members[a] = &e.Members[i]
		}
	}
	var err error
	if s.drained, err = s.loadDrained(); err != nil {
		return nil, err
	}
	if s.engine, err = newEngine(e, s.drained); err != nil {
		return nil, err
	}
	s.feed = &feed{server: s}
	s.stale = time.AfterFunc(math.MaxInt64, s.feed.expire)
	if e.Feed.RIB != "" {
		return s, s.loadFile(e.Feed.RIB)
	}
	left, err := s.loadSnapshot()
	s.stale.Reset(left)
	return s, err
}

func set[T comparable](value *T, fallback T) {
	var zero T
	if *value == zero {
		*value = fallback
	}
}

// required checks the keys that only a server needs.
func required(e *config.Exchange) error {
	const guide = "add it to the exchange file, as in docs/guides/exchange.md"
	switch {
	case !e.RouterID.IsValid():
		return fault.New(fault.Usage, guide, "exchange.router_id is missing")
	case len(e.Listen) == 0:
		return fault.New(fault.Usage, guide, "listen is missing")
	case !e.Feed.Bird.IsValid() && e.Feed.RIB == "":
		return fault.New(fault.Usage, guide, "feed is missing")
	}
	return nil
}

// own returns the parts of an OPEN that members and feed have in common.
func (s *Server) own() wire.Open {
	e := s.engine.exchange
	return wire.Open{AS: e.AS, HoldTime: uint16(s.options.Hold / time.Second), ID: e.RouterID, Families: families[:],
		RouteRefresh: true, EnhancedRefresh: true, ExtendedMessages: true, AS4: true}
}

func (s *Server) endpoint(a netip.Addr) string {
	return net.JoinHostPort(a.String(), strconv.Itoa(s.options.Port))
}

// Run serves until ctx ends. The sessions then end without a NOTIFICATION, so that members keep
// their paths during a restart.
func (s *Server) Run(ctx context.Context) error {
	var listeners []net.Listener
	for _, a := range s.addresses() {
		l, err := s.listen(ctx, a)
		if err != nil {
			for _, l := range listeners {
				_ = l.Close()
			}
			return err
		}
		listeners = append(listeners, l)
	}
	defer s.stale.Stop()
	s.tidy() // the addresses are Weir's: no other server writes here
	all, ctx := errgroup.WithContext(ctx)
	for _, l := range listeners {
		context.AfterFunc(ctx, func() { _ = l.Close() })
		all.Go(func() error { return s.accept(ctx, l) })
	}
	if s.engine.exchange.Feed.Bird.IsValid() {
		all.Go(func() error { return s.feed.run(ctx) })
	}
	all.Go(func() error { return s.flusher(ctx) })
	all.Go(func() error { return s.saver(ctx) })
	return all.Wait()
}

// addresses returns the addresses to listen on: listen and feed.local.
func (s *Server) addresses() []netip.Addr {
	e := s.engine.exchange
	all := slices.Clone(e.Listen)
	if local := e.Feed.Local; local.IsValid() && !slices.Contains(all, local) {
		all = append(all, local)
	}
	return all
}

func (s *Server) listen(ctx context.Context, a netip.Addr) (net.Listener, error) {
	config := net.ListenConfig{Control: func(_, _ string, raw syscall.RawConn) error { return s.secure(raw, a) }}
	l, err := config.Listen(ctx, "tcp", s.endpoint(a))
	switch {
	case errors.Is(err, os.ErrPermission):
		return nil, fault.New(fault.Permission, "run as root or with CAP_NET_BIND_SERVICE", "listen on %s: %w", a, err)
	case errors.Is(err, syscall.EADDRINUSE):
		return nil, fault.New(fault.Failed, "stop the other process; BIRD needs `strict bind yes` in every BGP protocol, or it has all addresses", "listen on %s: %w", a, err)
	case err != nil:
		return nil, fault.New(fault.Failed, "add the address to an interface of this host", "listen on %s: %w", a, err)
	}
	return l, nil
}

// secure sets the TCP MD5 keys of all peers and the TTL of GTSM on a socket before it listens.
func (s *Server) secure(raw syscall.RawConn, local netip.Addr) error {
	e := s.engine.exchange
	for i := range e.Members {
		m := &e.Members[i]
		for _, a := range m.Addresses {
			if m.Password != "" && a.Is4() == local.Is4() {
				if err := session.Sign(raw, a, m.Password); err != nil {
					return err
				}
			}
		}
	}
	if e.Feed.Password != "" && e.Feed.Bird.Is4() == local.Is4() {
		if err := session.Sign(raw, e.Feed.Bird, e.Feed.Password); err != nil {
			return err
		}
	}
	return session.Far(raw, local.Is6())
}

// feedControl prepares a socket to BIRD.
func (s *Server) feedControl(_ context.Context, _, _ string, raw syscall.RawConn) error {
	f := s.engine.exchange.Feed
	if f.Password != "" {
		return session.Sign(raw, f.Bird, f.Password)
	}
	return nil
}

func (s *Server) accept(ctx context.Context, l net.Listener) error {
	for {
		conn, err := l.Accept()
		if ctx.Err() != nil {
			return nil
		}
		if err != nil { // out of descriptors, for example
			s.log.Warn("accept", "reason", err)
			if err := wait.For(ctx, time.Second); err != nil {
				return nil
			}
			continue
		}
		peer := conn.RemoteAddr().(*net.TCPAddr).AddrPort().Addr().Unmap().WithZone("")
		switch m := s.members[peer]; {
		case m != nil:
			go s.talk(ctx, conn, peer, m)
		case peer == s.engine.exchange.Feed.Bird:
			go s.feed.talk(ctx, conn, false)
		default:
			s.count(func(c *Counts) { c.UnknownMember++ })
			_ = conn.Close()
		}
	}
}

func (s *Server) count(f func(*Counts)) {
	s.engine.mu.Lock()
	f(&s.engine.counts)
	s.engine.mu.Unlock()
}

// talk runs a session with a member. A new connection replaces the former one: the member has
// restarted (RFC 4724, section 5).
func (s *Server) talk(ctx context.Context, conn net.Conn, peer netip.Addr, config *config.Member) {
	end := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer end()
	session.LowLatency(conn)
	if config.TTLSecurity {
		if raw, err := session.Raw(conn); err != nil || session.Near(raw, peer.Is6()) != nil {
			_ = conn.Close()
			return
		}
	}
	s.enter(peer, conn)
	l := &link{conn: conn}
	accept := func(*wire.Open) error { s.replace(peer, l); return nil }
	established, err := session.Open(conn, session.Config{Open: s.memberOpen(), PeerAS: config.AS, OpenWait: s.options.OpenWait, Accept: accept})
	if err == nil {
		err = s.serveMember(ctx, established, l, peer, config)
	} else {
		s.count(func(c *Counts) { c.Refused++ })
	}
	s.mu.Lock()
	if s.opening[peer] == conn {
		delete(s.opening, peer)
	}
	if s.links[peer] == l || s.links[peer] == nil {
		delete(s.links, peer)
		s.failed[peer] = err.Error()
	}
	s.mu.Unlock()
	if ctx.Err() == nil {
		s.log.Info("member: ended", "member", config.Name, "address", peer, "reason", err)
	}
}

// enter notes a connection without OPEN and closes the former one of the member.
func (s *Server) enter(peer netip.Addr, conn net.Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if former := s.opening[peer]; former != nil {
		_ = former.Close()
	}
	s.opening[peer] = conn
}

// replace makes a connection the one of its member and closes the former one.
func (s *Server) replace(peer netip.Addr, l *link) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if former := s.links[peer]; former != nil {
		_ = former.conn.Close()
	}
	if s.opening[peer] == l.conn {
		delete(s.opening, peer)
	}
	s.links[peer] = l
}

// memberOpen is the OPEN to members: path identifiers are sent, and routes stay over a restart.
func (s *Server) memberOpen() wire.Open {
	o := s.own()
	s.engine.mu.Lock()
	restarted := !s.engine.complete
	s.engine.mu.Unlock()
	o.GracefulRestart = &wire.GracefulRestart{Restarted: restarted, Time: uint16(restartTime / time.Second)}
	for _, f := range families {
		o.AddPath = append(o.AddPath, wire.AddPath{Family: f, Send: true})
		o.GracefulRestart.Families = append(o.GracefulRestart.Families, wire.GracefulFamily{Family: f, Preserved: true})
	}
	return o
}

func (s *Server) serveMember(ctx context.Context, established *session.Session, l *link, peer netip.Addr, config *config.Member) error {
	m := &member{config: config, address: peer, terms: termsOf(config, &established.Peer, established.MaxMessage()), session: established,
		since: time.Now(), wake: make(chan struct{}, 1), asked: make(chan wire.Family, len(families))}
	s.engine.join(m, m.terms)
	defer s.engine.leave(m)
	s.mu.Lock()
	l.member = m
	s.mu.Unlock()
	s.log.Info("member: established", "member", config.Name, "address", peer, "paths_ipv4", m.terms.limits[0], "paths_ipv6", m.terms.limits[1])
	stop, written := make(chan struct{}), make(chan error, 1)
	go keepAlive(established, stop) // beside the writer, which may wait for the table
	go func() {
		err := s.engine.write(m, stop)
		s.endMember(m, err)
		written <- err
	}()
	err := s.engine.read(m)
	close(stop)
	established.Close()
	if failed := <-written; failed != nil {
		err = failed
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return err
}

// endMember ends a session with a failed writer. A member that is behind keeps its paths if it
// has graceful restart: it connects again and receives the table.
func (s *Server) endMember(m *member, err error) {
	switch {
	case errors.Is(err, errBehind) && m.session.Peer.GracefulRestart == nil:
		m.session.End(&wire.Notification{Code: wire.CodeCease, Subcode: wire.CeaseOutOfResources})
	case errors.Is(err, session.ErrSendHold):
		m.session.End(&wire.Notification{Code: wire.CodeSendHoldTimer})
	case err != nil:
		m.session.Close()
	}
}

// flusher emits batches, at most one each Coalesce.
func (s *Server) flusher(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-s.engine.wake:
		}
		s.engine.mu.Lock()
		s.engine.flush()
		s.engine.mu.Unlock()
		if err := wait.For(ctx, s.options.Coalesce); err != nil {
			return nil
		}
	}
}

// Stop ends all member sessions for good, with a message to their operators (RFC 9003). Members
// then withdraw their paths.
func (s *Server) Stop(text string) {
	s.mu.Lock()
	var all []*member
	for _, l := range s.links {
		if l.member != nil {
			all = append(all, l.member)
		}
	}
	s.mu.Unlock()
	var done sync.WaitGroup
	for _, m := range all {
		done.Go(func() { m.session.End(wire.Shutdown(text)) })
	}
	done.Wait()
}

// Drain sets or ends the drained state of a sponsor ("orange") or port ("orange/ber1"): its paths
// come last. The end for a sponsor is also that for its ports. It is an error if the file or the
// sponsor keeps all of name drained.
func (s *Server) Drain(name string, drained bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	next := maps.Clone(s.drained)
	if drained {
		next[name] = true
	} else {
		maps.DeleteFunc(next, func(order string, _ bool) bool { return order == name || strings.HasPrefix(order, name+"/") })
	}
	known, left := false, false
	for _, p := range drainedPorts(s.engine.exchange, next) {
		if name == p.Sponsor || name == p.Sponsor+"/"+p.Name {
			known, left = true, left || !p.Drained
		}
	}
	switch sponsor, _, isPort := strings.Cut(name, "/"); {
	case !known:
		return fault.New(fault.Usage, "name a sponsor, or a port as SPONSOR/PORT", "there is no sponsor or port %q", name)
	case !drained && !left && isPort && next[sponsor]:
		return fault.New(fault.Usage, "run `weir ix drain "+sponsor+" --end`", "%s is drained with its sponsor", name)
	case !drained && !left:
		return fault.New(fault.Usage, "remove `drained: true` from the file, and restart the server", "%s is drained by the exchange file", name)
	}
	if err := s.saveDrained(next); err != nil {
		return err
	}
	s.drained = next
	return s.engine.drain(next)
}

func describe(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
