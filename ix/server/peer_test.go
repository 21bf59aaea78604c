// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"encoding/binary"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"time"

	"weir/ix/config"
	"weir/ix/session"
	"weir/ix/wire"
	"weir/kernel/testutil"
)

const patience = time.Minute

// lab is an exchange on loopback addresses of its own, so that tests run beside each other.
type lab struct {
	t      testing.TB
	net    byte // 127.net.x.y
	port   int
	config *config.Exchange
}

// newLab returns an exchange with four sponsors and the member lines given; NET stands for its
// addresses' first two bytes.
func newLab(t testing.TB, feed string, members string) *lab {
	t.Helper()
	l := &lab{t: t, net: byte(testutil.Rand(t).IntN(200) + 20), port: 17900 + testutil.Rand(t).IntN(20000)}
	text := fmt.Sprintf(`version: 1
exchange: {name: Test, as: 65500, router_id: 10.99.0.2}
feed:     %s
listen:   [NET.0.2]
choose:   {stale: 1h}
sponsors:
  orange: {as: 8492, ports: {ber1: {addresses: [10.99.1.1, "2001:db8:99::1"], rate: 10Gbit}}}
  green:  {as: 293,  ports: {fra1: {addresses: [10.99.1.2, "2001:db8:99::2"], rate: 10Gbit}}}
  violet: {as: 174,  ports: {ber1: {addresses: [10.99.1.3, "2001:db8:99::3"], rate: 10Gbit}}}
  blue:   {as: 6939, ports: {ber1: {addresses: [10.99.1.4, "2001:db8:99::4"], rate: 10Gbit}}}
members:
%s
`, feed, members)
	var err error
	if l.config, err = config.Parse("ix.yaml", []byte(l.text(text))); err != nil {
		t.Fatal(err)
	}
	return l
}

func (l *lab) text(s string) string { return replaceAll(s, "NET", fmt.Sprintf("127.%d", l.net)) }

func (l *lab) addr(s string) netip.Addr { return netip.MustParseAddr(l.text("NET." + s)) }

// start runs a server until the end of the test or the call of stop.
func (l *lab) start(o Options) (s *Server, stop func()) {
	l.t.Helper()
	o.Port, o.Retry, o.Coalesce = l.port, 20*time.Millisecond, time.Millisecond
	s, err := New(l.config, o)
	if err != nil {
		l.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	var once sync.Once
	stop = func() {
		once.Do(func() {
			cancel()
			if err := <-done; err != nil {
				l.t.Error(err)
			}
		})
	}
	l.t.Cleanup(stop)
	return s, stop
}

// dial connects from an address to the server.
func (l *lab) dial(from string) net.Conn {
	l.t.Helper()
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: l.addr(from).AsSlice()}}
	var conn net.Conn
	testutil.Eventually(l.t, patience, "a connection", func() (ok bool) {
		var err error
		conn, err = d.Dial("tcp", net.JoinHostPort(l.addr("0.2").String(), fmt.Sprint(l.port)))
		return err == nil
	})
	l.t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// router is a member's router: it keeps the received paths.
type router struct {
	t       *testing.T
	session *session.Session

	mu    sync.Mutex
	paths map[netip.Prefix]map[uint32]string // attributes by prefix and path identifier
	order map[netip.Prefix][]uint32          // of arrival
	ends  map[wire.Family]int                // End-of-RIB
	marks []uint8                            // subtypes of ROUTE-REFRESH
	stale map[stalePath]bool                 // not received since BoRR (RFC 7313, section 4)
	err   error
}

type stalePath struct {
	prefix netip.Prefix
	id     uint32
}

// newRouter returns a router without a session.
func newRouter(t *testing.T) *router {
	return &router{t: t, paths: map[netip.Prefix]map[uint32]string{}, order: map[netip.Prefix][]uint32{}, ends: map[wire.Family]int{}, stale: map[stalePath]bool{}}
}

// routerOpen is the OPEN of a modern router: both families, path identifiers, graceful restart.
func routerOpen(as uint32, id string) wire.Open {
	o := wire.Open{AS: as, HoldTime: 90, ID: netip.MustParseAddr(id), Families: families[:], RouteRefresh: true, EnhancedRefresh: true, AS4: true,
		GracefulRestart: &wire.GracefulRestart{Time: 120}}
	for _, f := range families {
		o.AddPath = append(o.AddPath, wire.AddPath{Family: f, Receive: true})
	}
	return o
}

// join opens a session over a connection and reads until it ends.
func join(t *testing.T, conn net.Conn, open wire.Open) *router {
	t.Helper()
	s, err := session.Open(conn, session.Config{Open: open, PeerAS: 65500, OpenWait: patience})
	if err != nil {
		t.Fatal(err)
	}
	r := newRouter(t)
	r.session = s
	go r.read(open)
	return r
}

func (r *router) read(open wire.Open) {
	coding := wire.Coding{AS4: open.AS4, AddPathIPv4: receives(&open, families[0]), AddPathIPv6: receives(&open, families[1])}
	for {
		kind, body, err := r.session.Next()
		r.mu.Lock()
		if err != nil {
			r.err = err
			r.mu.Unlock()
			return
		}
		switch kind {
		case wire.TypeRouteRefresh:
			r.refresh(body)
		case wire.TypeUpdate:
			r.update(body, coding)
		}
		r.mu.Unlock()
	}
}

// refresh handles BoRR and EoRR as RFC 7313 says: before End-of-RIB they are ignored.
func (r *router) refresh(body []byte) {
	f, subtype, err := wire.ParseRefresh(body)
	if err != nil {
		r.t.Error(err)
	}
	if subtype != wire.RefreshBegin && subtype != wire.RefreshEnd {
		return
	}
	r.marks = append(r.marks, subtype)
	if r.ends[f] == 0 {
		return
	}
	for p, paths := range r.paths {
		for id := range paths {
			if at := (stalePath{p, id}); families[familyOf(p)] == f && subtype == wire.RefreshBegin {
				r.stale[at] = true
			} else if families[familyOf(p)] == f && r.stale[at] {
				r.drop(p, id)
			}
		}
	}
}

// drop removes a path.
func (r *router) drop(p netip.Prefix, id uint32) {
	delete(r.paths[p], id)
	delete(r.stale, stalePath{p, id})
	r.order[p] = slices.DeleteFunc(r.order[p], func(have uint32) bool { return have == id })
	if len(r.paths[p]) == 0 {
		delete(r.paths, p)
		delete(r.order, p)
	}
}

// apply handles messages that were not sent over a session.
func (r *router) apply(messages []byte, c wire.Coding) {
	r.t.Helper()
	for len(messages) > 0 {
		kind, size, err := wire.ParseHeader(messages, wire.MaxMessage)
		if err != nil || size > len(messages) {
			r.t.Fatalf("a message of %d bytes: %v", size, err)
		}
		switch body := messages[wire.HeaderSize:size]; kind {
		case wire.TypeRouteRefresh:
			r.refresh(body)
		case wire.TypeUpdate:
			r.update(body, c)
		}
		messages = messages[size:]
	}
}

func (r *router) update(body []byte, c wire.Coding) {
	u, err := wire.ParseUpdate(body, c)
	if err != nil || u.Fault != nil {
		r.t.Errorf("a malformed UPDATE: %v %v", err, u.Fault)
		return
	}
	if f, end := u.EndOfRIB(); end {
		r.ends[f]++
		return
	}
	if _, has := wire.Attrs(u.AppendAnnounced(nil)).Get(wire.AttrLocalPref); has {
		r.t.Error("an UPDATE has LOCAL_PREF")
	}
	for _, part := range []struct {
		nlri  *wire.NLRI
		attrs wire.Attrs
	}{{&u.Announced, u.AppendAnnounced(nil)}, {&u.Reach, u.AppendReach(nil)}} {
		for p, id, ok := part.nlri.Next(); ok; p, id, ok = part.nlri.Next() {
			if r.paths[p] == nil {
				r.paths[p] = map[uint32]string{}
			}
			if _, again := r.paths[p][id]; !again {
				r.order[p] = append(r.order[p], id)
			}
			r.paths[p][id] = string(part.attrs)
			delete(r.stale, stalePath{p, id})
		}
	}
	for _, nlri := range []*wire.NLRI{&u.Withdrawn, &u.Unreach} {
		for p, id, ok := nlri.Next(); ok; p, id, ok = nlri.Next() {
			r.drop(p, id)
		}
	}
}

// hops returns the next hops of the paths to a prefix by identifier.
func (r *router) hops(prefix string) map[uint32]string {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := map[uint32]string{}
	for id, attrs := range r.paths[netip.MustParsePrefix(prefix)] {
		view, _ := wire.Attrs(attrs).View()
		all[id] = view.NextHop.String()
	}
	return all
}

// all returns a copy of the paths.
func (r *router) all() map[netip.Prefix]map[uint32]string {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := map[netip.Prefix]map[uint32]string{}
	for p, paths := range r.paths {
		all[p] = maps.Clone(paths)
	}
	return all
}

func (r *router) has(condition func() bool) func() bool {
	return func() bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		return condition()
	}
}

// complete waits for End-of-RIB of both families.
func (r *router) complete() {
	r.t.Helper()
	testutil.Eventually(r.t, patience, "End-of-RIB", r.has(func() bool { return r.ends[families[0]] > 0 && r.ends[families[1]] > 0 }))
}

// bird plays BIRD: an internal session that sends all paths with identifiers.
type bird struct {
	session *session.Session
	out     wire.Outbound
}

func birdOpen() wire.Open {
	o := wire.Open{AS: 65500, HoldTime: 90, ID: netip.MustParseAddr("10.99.0.1"), Families: families[:], RouteRefresh: true, AS4: true, GracefulRestart: &wire.GracefulRestart{Time: 120}}
	for _, f := range families {
		o.AddPath = append(o.AddPath, wire.AddPath{Family: f, Send: true})
	}
	return o
}

func feedOver(t *testing.T, conn net.Conn) *bird {
	t.Helper()
	s, err := session.Open(conn, session.Config{Open: birdOpen(), PeerAS: 65500, OpenWait: patience})
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		for {
			if _, _, err := s.Next(); err != nil {
				return
			}
		}
	}()
	return &bird{s, wire.Outbound{Coding: wire.Coding{AS4: true, AddPathIPv4: true, AddPathIPv6: true}, Max: wire.MaxMessage}}
}

// attributes returns stored attributes of a path through a sponsor.
func attributes(hop netip.Addr, path ...uint32) wire.Attrs {
	attrs := []byte{0x40, 1, 1, 0, 0x40, 2, byte(2 + 4*len(path)), 2, byte(len(path))}
	for _, as := range path {
		attrs = binary.BigEndian.AppendUint32(attrs, as)
	}
	if hop.Is4() {
		attrs = append(append(attrs, 0x40, 3, 4), hop.AsSlice()...)
	}
	attrs = append(attrs, 0x40, 5, 4, 0, 0, 0, 100)
	if hop.Is6() {
		attrs = append(append(attrs, 0x80, 14, 17, 16), hop.AsSlice()...)
	}
	return attrs
}

// ases are the sponsors' AS numbers; sponsor n has the next hops 10.99.1.n+1 and 2001:db8:99::n+1.
var ases = []uint32{8492, 293, 174, 6939}

func hopOf(p netip.Prefix, sponsor int) netip.Addr {
	if p.Addr().Is4() {
		return netip.AddrFrom4([4]byte{10, 99, 1, byte(sponsor + 1)})
	}
	return netip.MustParseAddr(fmt.Sprintf("2001:db8:99::%d", sponsor+1))
}

func (b *bird) announce(t *testing.T, prefix string, id uint32, sponsor int, behind ...uint32) {
	t.Helper()
	p := netip.MustParsePrefix(prefix)
	attrs := attributes(hopOf(p, sponsor), append([]uint32{ases[sponsor]}, behind...)...)
	b.send(t, b.out.Announce(nil, families[familyOf(p)], attrs, []wire.Target{{Prefix: p, ID: id}}))
}

func (b *bird) withdraw(t *testing.T, prefix string, id uint32) {
	t.Helper()
	p := netip.MustParsePrefix(prefix)
	b.send(t, b.out.Withdraw(nil, families[familyOf(p)], []wire.Target{{Prefix: p, ID: id}}))
}

func (b *bird) end(t *testing.T) {
	t.Helper()
	b.send(t, wire.AppendEndOfRIB(wire.AppendEndOfRIB(nil, families[0]), families[1]))
}

func (b *bird) send(t *testing.T, messages []byte) {
	t.Helper()
	if err := b.session.Write(messages); err != nil {
		t.Fatal(err)
	}
}
