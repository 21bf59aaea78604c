// SPDX-License-Identifier: Apache-2.0

package server

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"weir/ix/wire"
	"weir/kernel/testutil"
)

const session4 = "{bird: NET.0.1, local: NET.0.2}"

func replaceAll(s, old, new string) string { return strings.ReplaceAll(s, old, new) }

// load announces four paths to two prefixes, and two to a third.
func load(t *testing.T, b *bird) {
	for i := range ases {
		b.announce(t, "192.0.2.0/24", uint32(i+1), i, 3356, 64500)
		b.announce(t, "2001:db8:1::/48", uint32(i+1), i, 3356, 64500)
	}
	b.announce(t, "198.51.100.0/24", 1, 0, 64501)
	b.announce(t, "198.51.100.0/24", 2, 1, 64501)
}

func TestMembersReceiveAtMostNPaths(t *testing.T) {
	l := newLab(t, session4, `  freifunk: {as: 64999, addresses: [NET.2.1], paths: 3}
  club:     {as: 64998, addresses: [NET.2.2], without: [green]}`)
	_, _ = l.start(Options{})
	b := feedOver(t, l.dial("0.1"))
	freifunk := join(t, l.dial("2.1"), routerOpen(64999, "10.0.0.1"))
	load(t, b)
	b.end(t)
	freifunk.complete()
	if n := len(freifunk.hops("192.0.2.0/24")); n != 3 {
		t.Errorf("%d paths instead of 3", n)
	}
	if n := len(freifunk.hops("2001:db8:1::/48")); n != 3 {
		t.Errorf("%d IPv6 paths instead of 3", n)
	}
	one := routerOpen(64998, "10.0.0.2")
	one.AddPath = nil
	club := join(t, l.dial("2.2"), one)
	club.complete()
	if got := club.hops("198.51.100.0/24"); len(got) != 1 || got[0] != "10.99.1.1" {
		t.Errorf("without add-path and green: %v", got)
	}
	// The loss of a path moves its share only, and its return restores the set.
	before := freifunk.hops("192.0.2.0/24")
	lost := uint32(0)
	for _, hop := range before {
		lost = uint32(hop[len(hop)-1] - '0')
	}
	b.withdraw(t, "192.0.2.0/24", lost)
	gone := "10.99.1." + string(rune('0'+lost))
	testutil.Eventually(t, patience, "another path", func() bool {
		now := freifunk.hops("192.0.2.0/24")
		return len(now) == 3 && !slices.Contains(slices.Collect(maps.Values(now)), gone)
	})
	b.announce(t, "192.0.2.0/24", lost, int(lost-1), 3356, 64500)
	testutil.Eventually(t, patience, "the former paths", func() bool { return maps.Equal(freifunk.hops("192.0.2.0/24"), before) })
	b.withdraw(t, "198.51.100.0/24", 1)
	b.withdraw(t, "198.51.100.0/24", 2)
	testutil.Eventually(t, patience, "a withdrawal", func() bool {
		return len(freifunk.hops("198.51.100.0/24")) == 0 && len(club.hops("198.51.100.0/24")) == 0
	})
}

// The preferred path arrives first and has the lowest identifier.
func TestThePreferredPathIsFirst(t *testing.T) {
	l := newLab(t, session4, `  freifunk: {as: 64999, addresses: [NET.2.1], paths: 4}
  single:   {as: 64998, addresses: [NET.2.2], paths: 1}`)
	_, _ = l.start(Options{})
	b := feedOver(t, l.dial("0.1"))
	var prefixes []string
	for i := range 64 {
		p := "192.0." + string(rune('0'+i/10)) + string(rune('0'+i%10)) + ".0/24"
		p = strings.Replace(p, ".0"+string(rune('0'+i%10))+".", "."+string(rune('0'+i%10))+".", 1)
		prefixes = append(prefixes, p)
		for s := range ases {
			behind := []uint32{3356, 64500}
			if s == i%4 {
				behind = behind[1:] // one shorter path
			}
			b.announce(t, p, uint32(s+1), s, behind...)
		}
	}
	b.end(t)
	all, one := join(t, l.dial("2.1"), routerOpen(64999, "10.0.0.1")), join(t, l.dial("2.2"), routerOpen(64998, "10.0.0.2"))
	all.complete()
	one.complete()
	for _, p := range prefixes {
		paths, first := all.hops(p), one.hops(p)
		if len(paths) != 4 || len(first) != 1 {
			t.Fatalf("%s: %v, %v", p, paths, first)
		}
		least := slices.Min(slices.Collect(maps.Keys(paths)))
		for _, hop := range first {
			if paths[least] != hop {
				t.Errorf("%s: the lowest identifier %d has %s, preferred is %s", p, least, paths[least], hop)
			}
		}
		all.mu.Lock()
		for prefix, order := range all.order {
			if prefix.String() == p && order[0] != least {
				t.Errorf("%s: %v arrived before the preferred path %d", p, order, least)
			}
		}
		all.mu.Unlock()
	}
}

// Capability 76, as in the notes on the draft: N = min(file, limit), 0 and absence mean the file's.
func TestCapability76(t *testing.T) {
	v4, v6 := families[0], families[1]
	for name, c := range map[string]struct {
		limits     []wire.PathsLimit
		addPath    bool
		ipv4, ipv6 int
	}{
		"absent":             {nil, true, 4, 4},
		"0":                  {[]wire.PathsLimit{{Family: v4, Limit: 0}}, true, 4, 4},
		"1":                  {[]wire.PathsLimit{{Family: v4, Limit: 1}}, true, 1, 4},
		"3":                  {[]wire.PathsLimit{{Family: v4, Limit: 3}, {Family: v6, Limit: 2}}, true, 3, 2},
		"65535":              {[]wire.PathsLimit{{Family: v4, Limit: 65535}}, true, 4, 4},
		"other family":       {[]wire.PathsLimit{{Family: wire.Family{AFI: 1, SAFI: 128}, Limit: 1}}, true, 4, 4},
		"duplicate":          {[]wire.PathsLimit{{Family: v4, Limit: 1}, {Family: v4, Limit: 2}}, true, 2, 4},
		"without add-path":   {[]wire.PathsLimit{{Family: v4, Limit: 3}}, false, 1, 1},
		"0 without add-path": {[]wire.PathsLimit{{Family: v4, Limit: 0}}, false, 1, 1},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLab(t, session4, `  freifunk: {as: 64999, addresses: [NET.2.1], paths: 4}`)
			_, _ = l.start(Options{})
			b := feedOver(t, l.dial("0.1"))
			load(t, b)
			b.end(t)
			open := routerOpen(64999, "10.0.0.1")
			open.PathsLimits = c.limits
			if !c.addPath {
				open.AddPath = nil
			}
			r := join(t, l.dial("2.1"), open)
			r.complete()
			if n := len(r.hops("192.0.2.0/24")); n != c.ipv4 {
				t.Errorf("%d IPv4 paths instead of %d", n, c.ipv4)
			}
			if n := len(r.hops("2001:db8:1::/48")); n != c.ipv6 {
				t.Errorf("%d IPv6 paths instead of %d", n, c.ipv6)
			}
		})
	}
}

// A restart from the snapshot sends the same paths with the same identifiers at once, and no
// End-of-RIB before that of the feed.
func TestRestartFromTheSnapshot(t *testing.T) {
	l := newLab(t, session4, `  freifunk: {as: 64999, addresses: [NET.2.1], paths: 3}`)
	state := t.TempDir()
	_, stop := l.start(Options{State: state})
	b := feedOver(t, l.dial("0.1"))
	load(t, b)
	b.end(t)
	r := join(t, l.dial("2.1"), routerOpen(64999, "10.0.0.1"))
	r.complete()
	before := r.all()
	stop() // writes the snapshot
	_, _ = l.start(Options{State: state})
	r = join(t, l.dial("2.1"), routerOpen(64999, "10.0.0.1"))
	if !r.session.Peer.GracefulRestart.Restarted {
		t.Error("the OPEN lacks the restart state bit")
	}
	testutil.Eventually(t, patience, "the paths of the snapshot", func() bool { return cmp.Equal(r.all(), before) })
	b = feedOver(t, l.dial("0.1"))
	// BIRD numbers its paths anew after a restart of its own, and has lost one prefix.
	for i := range ases {
		b.announce(t, "192.0.2.0/24", uint32(len(ases)-i), i, 3356, 64500)
		b.announce(t, "2001:db8:1::/48", uint32(len(ases)-i), i, 3356, 64500)
	}
	if ends := r.has(func() bool { return len(r.ends) > 0 }); ends() {
		t.Error("End-of-RIB before that of the feed")
	}
	b.end(t)
	r.complete()
	after := r.all()
	for p := range before {
		if p.String() == "198.51.100.0/24" {
			delete(before, p)
		}
	}
	if diff := cmp.Diff(before, after); diff != "" {
		t.Errorf("paths after the feed's End-of-RIB: %s", diff)
	}
}

// A session that ends leaves its paths in place; the new session's End-of-RIB removes the rest.
func TestTheFeedMayRestart(t *testing.T) {
	l := newLab(t, session4, `  freifunk: {as: 64999, addresses: [NET.2.1], paths: 4}`)
	s, _ := l.start(Options{})
	b := feedOver(t, l.dial("0.1"))
	load(t, b)
	b.end(t)
	r := join(t, l.dial("2.1"), routerOpen(64999, "10.0.0.1"))
	r.complete()
	before := r.all()
	b.session.Close()
	testutil.Eventually(t, patience, "the end of the feed", func() bool { return !s.Status().Feed.Established })
	b = feedOver(t, l.dial("0.1"))
	for i := range ases {
		b.announce(t, "192.0.2.0/24", uint32(i+7), len(ases)-1-i, 3356, 64500)
	}
	b.announce(t, "203.0.113.0/24", 1, 0, 64502)
	testutil.Eventually(t, patience, "a new prefix", func() bool { return len(r.hops("203.0.113.0/24")) == 1 })
	for p, paths := range before {
		if now := r.all()[p]; !cmp.Equal(now, paths) {
			t.Errorf("%v changed before End-of-RIB: %v", p, now)
		}
	}
	b.end(t)
	testutil.Eventually(t, patience, "withdrawals of lost paths", func() bool { return len(r.all()) == 2 })
}

func TestDrain(t *testing.T) {
	l := newLab(t, session4, `  freifunk: {as: 64999, addresses: [NET.2.1], paths: 3}`)
	s, _ := l.start(Options{State: t.TempDir()})
	b := feedOver(t, l.dial("0.1"))
	load(t, b)
	b.end(t)
	r := join(t, l.dial("2.1"), routerOpen(64999, "10.0.0.1"))
	r.complete()
	before := r.all()
	if err := s.Drain("oranje", true); err == nil {
		t.Error("an unknown sponsor is drained")
	}
	for _, name := range []string{"orange", "green/fra1", "violet"} {
		if err := s.Drain(name, true); err != nil {
			t.Fatal(err)
		}
	}
	// One port is not drained: it is preferred, and the others fill the set.
	testutil.Eventually(t, patience, "the drained sponsors last", func() bool {
		paths := r.hops("192.0.2.0/24")
		return len(paths) == 3 && paths[slices.Min(slices.Collect(maps.Keys(paths)))] == "10.99.1.4"
	})
	for _, name := range []string{"orange", "green/fra1", "violet"} {
		if err := s.Drain(name, false); err != nil {
			t.Fatal(err)
		}
	}
	testutil.Eventually(t, patience, "the former paths", func() bool { return cmp.Equal(r.all(), before) })
}

// The drained state is the same after a restart, in any order of orders; an order without effect is
// refused.
func TestTheDrainedStateSurvivesARestart(t *testing.T) {
	l := newLab(t, session4, oneMember)
	l.config.Sponsors[1].Drained = true // green
	for name, c := range map[string]struct {
		orders []string // "-": end
		failed string
		left   []string
	}{
		"a port of a drained sponsor": {[]string{"orange", "-orange/ber1"}, "-orange/ber1", []string{"orange/ber1", "green/fra1"}},
		"a sponsor with its ports":    {[]string{"orange/ber1", "orange", "-orange"}, "", []string{"green/fra1"}},
		"a sponsor of the file":       {[]string{"-green"}, "-green", []string{"green/fra1"}},
		"a port of the file":          {[]string{"violet", "green/fra1", "-green/fra1"}, "-green/fra1", []string{"green/fra1", "violet/ber1"}},
	} {
		state := t.TempDir()
		s, err := New(l.config, Options{State: state})
		if err != nil {
			t.Fatal(err)
		}
		s.stale.Stop()
		failed := ""
		for _, order := range c.orders {
			if err := s.Drain(strings.TrimPrefix(order, "-"), order[0] != '-'); err != nil {
				failed += order
			}
		}
		again, err := New(l.config, Options{State: state})
		if err != nil {
			t.Fatal(err)
		}
		again.stale.Stop()
		if diff := cmp.Diff(s.Status().Ports, again.Status().Ports); diff != "" || failed != c.failed {
			t.Errorf("%s: failed %q, after a restart %s", name, failed, diff)
		}
		var left []string
		for _, p := range s.Status().Ports {
			if p.Drained {
				left = append(left, p.Sponsor+"/"+p.Port)
			}
		}
		if !slices.Equal(left, c.left) {
			t.Errorf("%s: drained are %v", name, left)
		}
	}
}

func TestRouteRefresh(t *testing.T) {
	l := newLab(t, session4, `  freifunk: {as: 64999, addresses: [NET.2.1], paths: 3}`)
	_, _ = l.start(Options{})
	b := feedOver(t, l.dial("0.1"))
	load(t, b)
	b.end(t)
	r := join(t, l.dial("2.1"), routerOpen(64999, "10.0.0.1"))
	r.complete()
	before := r.all()
	r.mu.Lock()
	clear(r.paths)
	r.mu.Unlock()
	if err := r.session.Write(wire.AppendRefresh(nil, families[0], wire.RefreshRequest)); err != nil {
		t.Fatal(err)
	}
	testutil.Eventually(t, patience, "the table again", func() bool { return cmp.Equal(r.all(), before) })
	testutil.Eventually(t, patience, "BoRR and EoRR", r.has(func() bool { return slices.Equal(r.marks, []uint8{wire.RefreshBegin, wire.RefreshEnd}) }))
}

// Before End-of-RIB members ignore BoRR (RFC 7313, section 4): a route refresh only repeats the
// table.
func TestRouteRefreshBeforeEndOfRIB(t *testing.T) {
	l := newLab(t, session4, `  freifunk: {as: 64999, addresses: [NET.2.1], paths: 3}`)
	state := t.TempDir()
	_, stop := l.start(Options{State: state})
	b := feedOver(t, l.dial("0.1"))
	load(t, b)
	b.end(t)
	join(t, l.dial("2.1"), routerOpen(64999, "10.0.0.1")).complete()
	stop() // writes the snapshot
	_, _ = l.start(Options{State: state})
	r := join(t, l.dial("2.1"), routerOpen(64999, "10.0.0.1"))
	testutil.Eventually(t, patience, "the paths of the snapshot", func() bool { return len(r.all()) == 3 })
	r.mu.Lock()
	clear(r.paths)
	r.mu.Unlock()
	if err := r.session.Write(wire.AppendRefresh(nil, families[0], wire.RefreshRequest)); err != nil {
		t.Fatal(err)
	}
	testutil.Eventually(t, patience, "the table again", func() bool { return len(r.all()) == 3 })
	b = feedOver(t, l.dial("0.1"))
	load(t, b)
	b.end(t)
	r.complete()
	if !r.has(func() bool { return len(r.marks) == 0 })() {
		t.Error("BoRR or EoRR before End-of-RIB")
	}
}
