// SPDX-License-Identifier: Apache-2.0

package server

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"weir/ix/config"
	"weir/ix/rib"
	"weir/ix/session"
	"weir/ix/wire"
	"weir/kernel/testutil"
)

// bench is an engine with one group and without sessions; rows of a chunk are few.
type bench struct {
	t *testing.T
	l *lab
	s *Server
	x *engine
}

func newBench(t *testing.T) *bench {
	t.Helper()
	return newLab(t, session4, oneMember).bench()
}

func (l *lab) bench() *bench {
	t := l.t.(*testing.T)
	t.Helper()
	s, err := New(l.config, Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.stale.Stop() })
	x := s.engine
	x.unit, x.open = 4, true
	for range ases {
		if _, free := x.table.column(); !free {
			t.Fatal("no column")
		}
	}
	return &bench{t, l, s, x}
}

// reader is a member and its router.
type reader struct {
	*router
	x *engine
	m *member
}

func (b *bench) join() *reader {
	m := &member{config: &b.l.config.Members[0], wake: make(chan struct{}, 1)}
	m.terms = terms{out: wire.Outbound{Coding: wire.Coding{AS4: true, AddPathIPv4: true, AddPathIPv6: true}, Max: wire.MaxMessage}, limits: [2]int{3, 3}}
	b.x.join(m, m.terms)
	return &reader{newRouter(b.t), b.x, m}
}

// step applies the messages of one call of rows, and reports whether there may be more.
func (r *reader) step() bool {
	block, again, behind := r.x.rows(r.m)
	if behind {
		r.t.Fatal("the member is behind")
	}
	r.apply(block, r.m.group.out.Coding)
	return again
}

// rest applies all messages that are left.
func (r *reader) rest() {
	for r.step() {
	}
	for {
		block, _ := r.m.pending()
		if len(block) == 0 {
			return
		}
		r.apply(block, r.m.group.out.Coding)
	}
}

func (b *bench) set(p netip.Prefix, column, sponsor int, behind ...uint32) {
	b.put(p, column, attributes(hopOf(p, sponsor), append([]uint32{ases[sponsor]}, behind...)...))
}

func (b *bench) put(p netip.Prefix, column int, attrs wire.Attrs) {
	view, _ := attrs.View()
	b.x.set(p, rib.PortID(column), attrs, &view)
}

var someprefix = netip.MustParsePrefix("192.0.2.0/24")

// A path that is withdrawn and announced again in one batch stays at a member that receives the
// table meanwhile.
func TestAChunkWithinABatchLacksNoPath(t *testing.T) {
	b := newBench(t)
	b.set(someprefix, 0, 0)
	r := b.join()
	b.x.withdraw(someprefix, 0)
	for r.step() {
	}
	b.set(someprefix, 0, 0)
	b.x.flush()
	r.rest()
	if len(r.hops(someprefix.String())) != 1 {
		t.Error("the member lacks the path")
	}
}

// A path that exists only within a batch goes from a member that has received it in a chunk.
func TestAChunkWithinABatchLeavesNoPath(t *testing.T) {
	b := newBench(t)
	b.set(someprefix, 0, 0)
	r := b.join()
	b.set(someprefix, 1, 1)
	for r.step() {
	}
	b.x.withdraw(someprefix, 1)
	b.x.flush()
	r.rest()
	if got := r.hops(someprefix.String()); len(got) != 1 {
		t.Errorf("the member has %v", got)
	}
}

// A prefix that moves to a row of a chunk sent before, within one batch, reaches the member.
func TestAPrefixMayMoveToAnotherRow(t *testing.T) {
	b := newBench(t)
	var all []netip.Prefix
	for i := range 8 {
		all = append(all, netip.MustParsePrefix(fmt.Sprintf("192.0.%d.0/24", i)))
		b.set(all[i], 0, 0)
	}
	early, late, other := all[0], all[7], netip.MustParsePrefix("203.0.113.0/24")
	r := b.join()
	r.step() // the chunk of early
	b.x.withdraw(late, 0)
	b.x.withdraw(early, 0)
	b.set(late, 0, 0)  // in early's row
	b.set(other, 0, 0) // in late's
	b.x.flush()
	r.rest()
	if len(r.hops(late.String())) != 1 || len(r.hops(other.String())) != 1 || len(r.hops(early.String())) != 0 {
		t.Errorf("the member has %v", r.all())
	}
}

// Changes, batches and chunks in any order leave a member with the table.
func TestAMemberHasTheTableAfterAnyOrderOfChanges(t *testing.T) {
	random := testutil.Rand(t)
	for range 60 {
		b := newBench(t)
		var all []netip.Prefix
		for i := range 10 {
			all = append(all, netip.MustParsePrefix(fmt.Sprintf("192.0.%d.0/24", i)), netip.MustParsePrefix(fmt.Sprintf("2001:db8:%d::/48", i)))
		}
		var r *reader
		for n := range 300 {
			if n == 40 {
				r = b.join()
			}
			p, column := all[random.IntN(len(all))], random.IntN(len(ases))
			switch action := random.IntN(10); {
			case action < 4:
				b.set(p, column, column, uint32(3000+random.IntN(2)))
			case action < 8:
				b.x.withdraw(p, rib.PortID(column))
			case action == 8:
				b.x.flush()
			case r != nil:
				if !r.step() && random.IntN(3) == 0 { // a route refresh
					r.m.next = 0
					r.m.dumping.Store(true)
				}
			}
		}
		b.x.flush()
		r.rest()
		fresh := b.join()
		fresh.rest()
		if diff := cmp.Diff(fresh.all(), r.all()); diff != "" {
			t.Fatalf("the member's paths differ from the table: %s", diff)
		}
	}
}

// One call makes one chunk, also if its rows have no path of the member's families.
func TestAnEmptyChunkEndsACall(t *testing.T) {
	b := newBench(t)
	for i := range 16 {
		b.set(netip.MustParsePrefix(fmt.Sprintf("192.0.%d.0/24", i)), 0, 0)
	}
	m := &member{config: &b.l.config.Members[0], wake: make(chan struct{}, 1)}
	m.terms = terms{out: wire.Outbound{Coding: wire.Coding{AS4: true}, Max: wire.MaxMessage}, limits: [2]int{0, 3}}
	b.x.join(m, m.terms)
	for want := uint32(1); want <= 3; want++ {
		if block, again, _ := b.x.rows(m); len(block) > 0 || !again || m.next != want {
			t.Fatalf("chunk %d: %d bytes, again %v", m.next, len(block), again)
		}
	}
}

// A member that is behind before its End-of-RIB would ignore BoRR (RFC 7313, section 4): its
// session ends. Behind End-of-RIB it receives the table again.
func TestAMemberBehindBeforeEndOfRIB(t *testing.T) {
	b := newBench(t)
	r := b.join()
	r.m.session = &session.Session{Peer: wire.Open{EnhancedRefresh: true}}
	r.m.group.stream.limit = 1
	for range 3 {
		r.m.group.stream.append(make([]byte, 20))
	}
	if err := b.x.write(r.m, nil); !errors.Is(err, errBehind) {
		t.Errorf("the end of the writer: %v", err)
	}
	r.m.marked = true
	if block := r.m.again(families[0]); len(block) == 0 {
		t.Error("no BoRR behind End-of-RIB")
	}
}

// A sponsor above the others, and another order of the sponsors, leave the path identifiers as they
// are.
func TestIdentifiersDependOnNames(t *testing.T) {
	l := newLab(t, session4, oneMember)
	paths := func() map[netip.Prefix]map[uint32]string {
		b := l.bench()
		for i := range 40 {
			for s := range ases {
				b.set(netip.MustParsePrefix(fmt.Sprintf("192.0.%d.0/24", i)), s, s, 3356)
			}
		}
		r := b.join()
		r.rest()
		return r.all()
	}
	before := paths()
	all := slices.Clone(l.config.Sponsors)
	slices.Reverse(all)
	more := all[0]
	more.Name = "alpha"
	more.Ports = slices.Clone(more.Ports)
	more.Ports[0].Addresses = []netip.Addr{netip.MustParseAddr("10.99.1.99")}
	l.config.Sponsors = append(all[:0:0], append([]config.Sponsor{more}, all...)...)
	if diff := cmp.Diff(before, paths()); diff != "" {
		t.Errorf("paths with another file: %s", diff)
	}
}

// A withdrawal of an absent path is no change: a feed of unknown next hops fills no batch.
func TestUnknownNextHopsFillNoBatch(t *testing.T) {
	b := newBench(t)
	b.join()
	stranger := netip.MustParseAddr("10.99.9.9")
	for i := range 100 {
		b.put(netip.MustParsePrefix(fmt.Sprintf("192.0.%d.0/24", i)), 0, attributes(stranger, 64500))
	}
	if n := len(b.x.order); n > 0 || b.x.version > 0 {
		t.Errorf("%d prefixes are in the batch", n)
	}
}

// Paths with NO_EXPORT, NO_ADVERTISE or NO_EXPORT_SUBCONFED reach no member.
func TestNoExportIsKept(t *testing.T) {
	b := newBench(t)
	r := b.join()
	for last := byte(1); last <= 3; last++ {
		b.set(someprefix, 0, 0)
		b.put(someprefix, 0, append(attributes(hopOf(someprefix, 0), ases[0]), 0xc0, 8, 8, 0, 0, 0, 1, 255, 255, 255, last))
		b.x.flush()
		r.rest()
		if got := r.all(); len(got) > 0 || b.x.counts.NoExport != int(last) {
			t.Errorf("community 65535:6528%d: the member has %v, count %d", last, got, b.x.counts.NoExport)
		}
	}
}

// Of sessions that end before End-of-RIB only the last one's columns stay, beside those of the last
// complete session.
func TestBrokenSessionsLeaveFewColumns(t *testing.T) {
	l := newLab(t, session4, oneMember)
	s, err := New(l.config, Options{})
	if err != nil {
		t.Fatal(err)
	}
	s.stale.Stop()
	if s.feed.open().EnhancedRefresh {
		t.Error("BIRD may send BoRR and EoRR, which are ignored")
	}
	f, table := s.feed, s.engine.table
	out := wire.Outbound{Coding: wire.Coding{AS4: true, AddPathIPv4: true, AddPathIPv6: true}, Max: wire.MaxMessage}
	feed := &session.Session{Peer: birdOpen()}
	for n := range 20 {
		f.begin(feed)
		d := decoder{feed: f, coding: codingOf(feed)}
		var bodies [][]byte
		for i := range ases {
			message := out.Announce(nil, families[0], attributes(hopOf(someprefix, i), ases[i]), []wire.Target{{Prefix: someprefix, ID: uint32(i)}})
			bodies = append(bodies, message[wire.HeaderSize:])
		}
		if n == 0 || n == 19 {
			for _, family := range families {
				bodies = append(bodies, wire.AppendEndOfRIB(nil, family)[wire.HeaderSize:])
			}
		}
		for _, body := range bodies {
			if err := d.update(body); err != nil {
				t.Fatal(err)
			}
		}
		if got := table.rib.Ports(); got > 3*len(ases) {
			t.Fatalf("%d columns after %d sessions", got, n+1)
		}
	}
	if n := table.rib.Stats().Paths; n != len(ases) || s.Status().Feed.Former {
		t.Errorf("%d paths behind End-of-RIB", n)
	}
}

// A path that the table cannot hold withdraws the former one.
func TestAPathBeyondTheTableReplacesTheFormerOne(t *testing.T) {
	b := newBench(t)
	r := b.join()
	b.set(someprefix, 0, 0)
	b.x.flush()
	attrs := attributes(hopOf(someprefix, 0), ases[0])
	for kind := range byte(2) {
		attrs = append(append(attrs, 0xd0, 200+kind, 160, 0), make([]byte, 160<<8)...)
	}
	b.put(someprefix, 0, attrs)
	b.x.flush()
	r.rest()
	if got := r.all(); len(got) > 0 || b.x.counts.TableFull != 1 {
		t.Errorf("the member has %d prefixes, count %d", len(got), b.x.counts.TableFull)
	}
}
