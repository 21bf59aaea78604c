// SPDX-License-Identifier: Apache-2.0

package server

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"weir/ix/rib"
	"weir/ix/session"
	"weir/ix/wire"
	"weir/kernel/testutil"
)

const oneMember = `  freifunk: {as: 64999, addresses: [NET.2.1], paths: 3}`

// An unknown address, a wrong AS and a member's own routes are counted, and disturb nobody.
func TestIgnoredPeersAreCounted(t *testing.T) {
	l := newLab(t, session4, oneMember)
	s, _ := l.start(Options{})
	stranger := l.dial("9.9")
	if _, err := io.ReadAll(stranger); err != nil && !errors.Is(err, io.EOF) {
		t.Log(err) // reset
	}
	if _, err := session.Open(l.dial("2.1"), session.Config{Open: routerOpen(64000, "10.0.0.1"), PeerAS: 65500}); err == nil {
		t.Error("a wrong AS is accepted")
	}
	b := feedOver(t, l.dial("0.1"))
	load(t, b)
	b.end(t)
	r := join(t, l.dial("2.1"), routerOpen(64999, "10.0.0.1"))
	r.complete()
	out := wire.Outbound{Coding: wire.Coding{AS4: true}, Max: wire.MaxMessage}
	own := out.Announce(nil, families[0], attributes(netip.MustParseAddr("10.99.2.1"), 64999), []wire.Target{{Prefix: netip.MustParsePrefix("203.0.113.0/24")}})
	if err := r.session.Write(own); err != nil {
		t.Fatal(err)
	}
	testutil.Eventually(t, patience, "the counts", func() bool {
		c := s.Status().Counts
		return c.UnknownMember == 1 && c.Refused == 1 && c.MemberRoutes == 1
	})
	if paths := r.hops("203.0.113.0/24"); len(paths) != 0 {
		t.Errorf("a member's route is announced: %v", paths)
	}
}

// A next hop of no port, one of the other family, and malformed attributes withdraw a path and are
// counted; the session of the feed stays.
func TestUnusablePathsAreCounted(t *testing.T) {
	l := newLab(t, session4, oneMember)
	s, _ := l.start(Options{})
	b := feedOver(t, l.dial("0.1"))
	load(t, b)
	b.end(t)
	r := join(t, l.dial("2.1"), routerOpen(64999, "10.0.0.1"))
	r.complete()
	target := []wire.Target{{Prefix: netip.MustParsePrefix("198.51.100.0/24"), ID: 1}}
	b.send(t, b.out.Announce(nil, families[0], attributes(netip.MustParseAddr("10.99.9.9"), 8492), target))
	target[0].ID = 2
	malformed := b.out.Announce(nil, families[0], attributes(netip.MustParseAddr("10.99.1.2"), 293), target)
	malformed[wire.HeaderSize+4+3] = 9 // ORIGIN
	b.send(t, malformed)
	testutil.Eventually(t, patience, "withdrawals", func() bool { return len(r.hops("198.51.100.0/24")) == 0 })
	if st := s.Status(); st.Counts.UnknownNextHop != 1 || st.Counts.MalformedUpdates != 1 || !st.Feed.Established {
		t.Errorf("counts %+v", st.Counts)
	}
}

// Attributes above a message of the member: the next path of the order takes the place.
func TestTooLargePathsAreSkipped(t *testing.T) {
	l := newLab(t, session4, oneMember)
	_, _ = l.start(Options{})
	conn := l.dial("0.1")
	open := birdOpen()
	open.ExtendedMessages = true
	s, err := session.Open(conn, session.Config{Open: open, PeerAS: 65500})
	if err != nil {
		t.Fatal(err)
	}
	b := &bird{s, wire.Outbound{Coding: wire.Coding{AS4: true, AddPathIPv4: true, AddPathIPv6: true}, Max: wire.MaxExtendedMessage}}
	long := make([]uint32, 250)
	for i := range long {
		long[i] = 64500
	}
	p := netip.MustParsePrefix("192.0.2.0/24")
	attrs := attributes(hopOf(p, 0), 8492)
	for range 8 { // an unknown transitive attribute of 1 kB each
		attrs = append(attrs, 0xd0, byte(200+len(attrs)/1024), 4, 0)
		attrs = append(attrs, make([]byte, 1024)...)
	}
	b.send(t, b.out.Announce(nil, families[0], attrs, []wire.Target{{Prefix: p, ID: 1}}))
	b.announce(t, "192.0.2.0/24", 2, 1, 3356, 64500)
	b.end(t)
	small := join(t, l.dial("2.1"), routerOpen(64999, "10.0.0.1"))
	small.complete()
	if got := small.hops("192.0.2.0/24"); len(got) != 1 {
		t.Errorf("paths of a member without extended messages: %v", got)
	}
	large := routerOpen(64999, "10.0.0.1")
	large.ExtendedMessages = true
	r := join(t, l.dial("2.1"), large)
	r.complete()
	if got := r.hops("192.0.2.0/24"); len(got) != 2 {
		t.Errorf("paths of a member with extended messages: %v", got)
	}
}

// The feed and a member receive KEEPALIVEs while no route changes.
func TestKeepalives(t *testing.T) {
	t.Parallel()
	l := newLab(t, session4, oneMember)
	_, _ = l.start(Options{})
	done := make(chan error)
	for from, open := range map[string]wire.Open{"0.1": birdOpen(), "2.1": routerOpen(64999, "10.0.0.1")} {
		open.HoldTime = 6
		conn := l.dial(from)
		if _, err := conn.Write(wire.AppendKeepalive(wire.AppendOpen(nil, &open))); err != nil {
			t.Fatal(err)
		}
		go func() { done <- twoKeepalives(conn) }()
	}
	for range 2 {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

// A member receives KEEPALIVEs while its writer waits for the table.
func TestKeepalivesWhileTheTableIsLocked(t *testing.T) {
	t.Parallel()
	l := newLab(t, session4, oneMember)
	s, _ := l.start(Options{})
	open := routerOpen(64999, "10.0.0.1")
	open.HoldTime = 9
	conn := l.dial("2.1")
	if _, err := conn.Write(wire.AppendKeepalive(wire.AppendOpen(nil, &open))); err != nil {
		t.Fatal(err)
	}
	testutil.Eventually(t, patience, "the session", func() bool { return s.Status().Groups == 1 })
	s.engine.mu.Lock()
	defer s.engine.mu.Unlock()
	for _, g := range s.engine.groups {
		for m := range g.stream.members {
			m.notify()
		}
	}
	if err := twoKeepalives(conn); err != nil { // the first one confirms the OPEN
		t.Error(err)
	}
}

func twoKeepalives(conn io.Reader) error {
	var kinds []byte
	for bytes.Count(kinds, []byte{wire.TypeKeepalive}) < 2 {
		var head [wire.HeaderSize]byte
		if _, err := io.ReadFull(conn, head[:]); err != nil {
			return fmt.Errorf("%w after messages of types %v", err, kinds)
		}
		if _, err := io.CopyN(io.Discard, conn, int64(binary.BigEndian.Uint16(head[16:]))-wire.HeaderSize); err != nil {
			return err
		}
		kinds = append(kinds, head[18])
	}
	return nil
}

// The time of a snapshot is that of the last contact with the feed: saves and restarts without
// feed do not extend the stale time.
func TestRestartsDoNotExtendTheStaleTime(t *testing.T) {
	l := newLab(t, session4, oneMember)
	l.config.Choose.Stale = 6 * time.Minute
	state := t.TempDir()
	s, err := New(l.config, Options{State: state})
	if err != nil {
		t.Fatal(err)
	}
	s.stale.Stop()
	x := s.engine
	_, _ = x.table.column()
	x.open = true
	(&bench{x: x}).set(someprefix, 0, 0)
	s.feed.left = time.Now().Add(-5 * time.Minute)
	for range 2 {
		if err := s.save(); err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(filepath.Join(state, snapshotName))
		if err != nil {
			t.Fatal(err)
		}
		if info.ModTime().Unix() != s.feed.left.Unix() {
			t.Errorf("the snapshot's time is %v; the last contact was at %v", info.ModTime(), s.feed.left)
		}
	}
	if s, err = New(l.config, Options{State: state}); err != nil {
		t.Fatal(err)
	}
	s.stale.Stop()
	if n := s.Status().Table.Paths; n != 1 {
		t.Errorf("%d paths", n)
	}
	if err := s.save(); err != nil {
		t.Fatal(err)
	}
	if left, err := s.loadSnapshot(); err != nil || left > 3*time.Minute {
		t.Errorf("the paths stay for %v, %v", left, err)
	}
}

// Temporary files of a killed process go.
func TestTemporaryFilesAreRemoved(t *testing.T) {
	l := newLab(t, session4, oneMember)
	state := t.TempDir()
	for _, name := range []string{snapshotName + ".123", drainedName + ".456", "other.123"} {
		testutil.Write(t, filepath.Join(state, name), "half")
	}
	_, _ = l.start(Options{State: state})
	testutil.Eventually(t, patience, "one file", func() bool {
		all, err := os.ReadDir(state)
		return err == nil && len(all) == 1 && all[0].Name() == "other.123"
	})
}

// The expiry of a silent feed leaves the paths of a session that is established meanwhile: the
// table is locked before the session is looked for.
func TestTheExpiryLeavesANewSession(t *testing.T) {
	b := newBench(t)
	f := b.s.feed
	b.set(someprefix, 0, 0)
	f.former = []rib.PortID{0}
	f.mu.Lock()
	done := make(chan struct{})
	go func() { defer close(done); f.expire() }()
	testutil.Eventually(t, patience, "the lock of the table", func() bool {
		if b.x.mu.TryLock() {
			b.x.mu.Unlock()
			return false
		}
		return true
	})
	f.current = &session.Session{}
	f.mu.Unlock()
	<-done
	b.s.stale.Stop()
	if n := b.x.table.rib.Stats().Paths; n != 1 {
		t.Error("the paths of the new session are gone")
	}
}

// A silent feed: the paths stay for the stale time, then members receive withdrawals.
func TestStalePathsAreWithdrawn(t *testing.T) {
	l := newLab(t, session4, oneMember)
	state := t.TempDir()
	s, stop := l.start(Options{State: state, Save: 10 * time.Millisecond})
	b := feedOver(t, l.dial("0.1"))
	load(t, b)
	b.end(t)
	r := join(t, l.dial("2.1"), routerOpen(64999, "10.0.0.1"))
	r.complete()
	snapshot := func() bool { _, err := os.Stat(filepath.Join(state, snapshotName)); return err == nil }
	testutil.Eventually(t, patience, "a snapshot", snapshot)
	if len(r.all()) != 3 {
		t.Errorf("%d prefixes while the feed is there", len(r.all()))
	}
	s.feed.expire() // the session is there
	b.session.Close()
	testutil.Eventually(t, patience, "the end of the feed", func() bool { return !s.Status().Feed.Established })
	if len(r.all()) != 3 {
		t.Errorf("%d prefixes within the stale time", len(r.all()))
	}
	testutil.Eventually(t, patience, "withdrawals", func() bool { s.feed.expire(); return len(r.all()) == 0 })
	testutil.Eventually(t, patience, "no snapshot", func() bool { return !snapshot() })
	stop()
	s, _ = l.start(Options{State: state})
	if n := s.Status().Table.Paths; n != 0 {
		t.Errorf("%d withdrawn paths are back after a restart", n)
	}
	r = join(t, l.dial("2.1"), routerOpen(64999, "10.0.0.1"))
	b = feedOver(t, l.dial("0.1"))
	load(t, b)
	b.end(t)
	testutil.Eventually(t, patience, "the paths again", func() bool { return len(r.all()) == 3 })
}

// A member that reads nothing delays no other, and receives the table again when it reads.
func TestASlowMember(t *testing.T) {
	l := newLab(t, session4, `  slow: {as: 64998, addresses: [NET.2.2], paths: 3}
  fast: {as: 64999, addresses: [NET.2.1], paths: 3}`)
	s, _ := l.start(Options{})
	b := feedOver(t, l.dial("0.1"))
	load(t, b)
	b.end(t)
	fast := join(t, l.dial("2.1"), routerOpen(64999, "10.0.0.1"))
	fast.complete()
	conn := l.dial("2.2")
	stuck, err := session.Open(conn, session.Config{Open: routerOpen(64998, "10.0.0.2"), PeerAS: 65500})
	if err != nil {
		t.Fatal(err)
	}
	testutil.Eventually(t, patience, "the slow member's session", func() bool {
		return slices.ContainsFunc(s.Status().Members, func(m MemberStatus) bool { return m.Name == "slow" && m.Synced })
	})
	// Blocks beyond the backlog, as of many changes.
	x := s.engine
	x.mu.Lock()
	for _, g := range x.groups {
		block := wire.AppendRefresh(nil, wire.Family{AFI: 99, SAFI: 1}, 3) // ignored by members
		for len(block) < 1<<20 {
			block = append(block, block...)
		}
		g.stream.limit = minBacklog
		for range 3 * minBacklog >> 20 {
			g.stream.append(block)
			if g.stream.bytes > minBacklog+len(block) {
				t.Fatalf("a backlog of %d bytes", g.stream.bytes)
			}
		}
	}
	x.mu.Unlock()
	b.announce(t, "203.0.113.0/24", 1, 0, 64502)
	testutil.Eventually(t, patience, "a change at the fast member", func() bool { return len(fast.hops("203.0.113.0/24")) == 1 })
	slow := newRouter(t)
	slow.session = stuck
	go slow.read(routerOpen(64998, "10.0.0.2"))
	testutil.Eventually(t, patience, "the table at the slow member", func() bool { return cmp.Equal(slow.all(), fast.all()) })
	if n := s.Status().Counts.Resynchronized; n == 0 {
		t.Error("no member was resynchronized")
	}
}

// Two connections of the feed: that of the higher BGP identifier, Weir's, stays.
func TestConnectionCollision(t *testing.T) {
	l := newLab(t, session4, oneMember)
	s, _ := l.start(Options{})
	f := s.feed
	dialed, accepted := &attempt{conn: l.dial("0.7"), dialed: true}, &attempt{conn: l.dial("0.7")}
	lower, higher := wire.Open{ID: netip.MustParseAddr("10.0.0.1")}, wire.Open{ID: netip.MustParseAddr("10.200.0.1")}
	if err := errors.Join(f.claim(dialed, &lower)); err != nil {
		t.Fatal(err)
	}
	if err := f.claim(accepted, &lower); err == nil {
		t.Error("the lower identifier's connection replaces Weir's")
	}
	if err := f.claim(accepted, &higher); err != nil || f.opening != accepted {
		t.Errorf("the higher identifier's connection is refused: %v", err)
	}
	if err := f.claim(dialed, &higher); err == nil {
		t.Error("Weir's connection replaces that of the higher identifier")
	}
}

// FuzzFeed gives the feed's decoder arbitrary UPDATEs, and checks that each path that the table
// has can be sent.
func FuzzFeed(f *testing.F) {
	out := wire.Outbound{Coding: wire.Coding{AS4: true, AddPathIPv4: true, AddPathIPv6: true}, Max: wire.MaxMessage}
	for _, prefix := range []string{"192.0.2.0/24", "2001:db8::/32"} {
		p := netip.MustParsePrefix(prefix)
		target := []wire.Target{{Prefix: p, ID: 7}}
		f.Add(out.Announce(nil, families[familyOf(p)], attributes(hopOf(p, 1), 293, 64500), target)[wire.HeaderSize:], uint8(3))
		f.Add(out.Withdraw(nil, families[familyOf(p)], target)[wire.HeaderSize:], uint8(3))
		f.Add(wire.AppendEndOfRIB(nil, families[familyOf(p)])[wire.HeaderSize:], uint8(0))
	}
	l := newLab(f, session4, oneMember)
	f.Fuzz(func(t *testing.T, body []byte, flags uint8) {
		s, err := New(l.config, Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer s.stale.Stop()
		x := s.engine
		m := &member{config: &l.config.Members[0], wake: make(chan struct{}, 1)}
		x.open = true
		x.join(m, terms{out: wire.Outbound{Coding: wire.Coding{AS4: flags&8 != 0, AddPathIPv4: flags&16 != 0, AddPathIPv6: true}, Max: wire.MaxMessage}, limits: [2]int{3, 3}})
		s.feed.retire()
		d := decoder{feed: s.feed, coding: wire.Coding{AS4: flags&4 == 0, AddPathIPv4: flags&1 != 0, AddPathIPv6: flags&2 != 0}}
		for range 2 {
			if err := d.update(body); err != nil {
				return
			}
		}
		x.flush()
		messages, _ := m.pending()
		for len(messages) > 0 {
			kind, size, err := wire.ParseHeader(messages, wire.MaxMessage)
			if err != nil || size > len(messages) || kind != wire.TypeUpdate {
				t.Fatalf("a message of type %d: %v", kind, err)
			}
			if u, err := wire.ParseUpdate(messages[wire.HeaderSize:size], m.group.out.Coding); err != nil || u.Fault != nil {
				t.Fatalf("a malformed UPDATE is sent: %v %v", err, u.Fault)
			}
			messages = messages[size:]
		}
	})
}
