// SPDX-License-Identifier: Apache-2.0

package server

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"weir/ix/birdconf"
	"weir/ix/config"
	"weir/ix/session"
	"weir/ix/wire"
	"weir/kernel/netns"
	"weir/kernel/testutil"
)

var kills = flag.Int("kills", 2, "how often TestBesideBIRD kills the path server")

const retry = 200 * time.Millisecond

// exchange is a route server, sponsors and a member in network namespaces of their own: BIRD and
// Weir in hub, the sponsors' routers in sponsors, the member's BIRD in member.
type exchange struct {
	t                     *testing.T
	hub, sponsors, member *netns.Namespace
	folder                string // of Weir
	weir                  *exec.Cmd
	output                bytes.Buffer
}

func newExchange(t *testing.T, file string) *exchange {
	t.Helper()
	testutil.NeedSpeed(t)
	testutil.Command(t, "bird")
	testutil.Command(t, "birdc")
	x := &exchange{t: t, hub: testutil.Namespace(t, "hub"), sponsors: testutil.Namespace(t, "spons"), member: testutil.Namespace(t, "membr"), folder: t.TempDir()}
	ip := func(words string) {
		t.Helper()
		words = strings.NewReplacer("HUB", x.hub.Name, "SPONSORS", x.sponsors.Name, "MEMBER", x.member.Name).Replace(words)
		if out, err := exec.Command(testutil.Command(t, "ip"), strings.Fields(words)...).CombinedOutput(); err != nil {
			t.Fatalf("ip %s: %v %s", words, err, out)
		}
	}
	ip("-n HUB link add s0 type veth peer name h0 netns SPONSORS")
	ip("-n HUB link add m0 type veth peer name h0 netns MEMBER")
	for _, line := range []string{"HUB addr add 10.99.0.1/16 dev s0", "HUB addr add 10.99.0.2/16 dev s0", "HUB addr add 2001:db8:99::ff/64 dev s0 nodad",
		"HUB addr add 2001:db8:99::ee/128 dev m0 nodad", "HUB link set s0 up", "HUB link set m0 up", "HUB route add 10.99.2.0/24 dev m0", "HUB route add 2001:db8:99::21/128 dev m0",
		"SPONSORS link set h0 up", "MEMBER link set h0 up", "MEMBER addr add 10.99.2.1/16 dev h0", "MEMBER addr add 10.99.2.3/16 dev h0", "MEMBER addr add 2001:db8:99::21/64 dev h0 nodad"} {
		ip("-n " + line)
	}
	for i := range ases {
		ip(fmt.Sprintf("-n SPONSORS addr add 10.99.1.%d/16 dev h0", i+1))
	}
	testutil.Write(t, filepath.Join(x.folder, "ix.yaml"), file)
	return x
}

const exchangeFile = `version: 1
exchange: {name: Test, as: 65500, router_id: 10.99.0.2}
feed:     {bird: 10.99.0.1, local: 10.99.0.2}
listen:   [10.99.0.2, "2001:db8:99::ee"]
sponsors:
  orange: {as: 8492, ports: {ber1: {addresses: [10.99.1.1, "2001:db8:99::1"], rate: 10Gbit}}}
  green:  {as: 293,  ports: {fra1: {addresses: [10.99.1.2, "2001:db8:99::2"], rate: 10Gbit}}}
  violet: {as: 174,  ports: {ber1: {addresses: [10.99.1.3, "2001:db8:99::3"], rate: 10Gbit}}}
  blue:   {as: 6939, ports: {ber1: {addresses: [10.99.1.4, "2001:db8:99::4"], rate: 10Gbit}}}
members:
  freifunk: {as: 64999, addresses: [10.99.2.1, "2001:db8:99::21"], paths: 3, password: "secret of freifunk", ttl_security: true}
  probe:    {as: 64998, addresses: [10.99.2.3], paths: 3}
`

// hubConfig is BIRD's part beside that of weir ix bird.
const hubConfig = `router id 10.99.0.1;
protocol device {}
template bgp sponsor {
	local 10.99.0.1 as 65500; passive yes; strict bind yes; graceful restart on;
	ipv4 { import all; export none; };
	ipv6 { import all; export none; };
}
protocol bgp orange from sponsor { neighbor 10.99.1.1 as 8492; }
protocol bgp green from sponsor { neighbor 10.99.1.2 as 293; }
protocol bgp violet from sponsor { neighbor 10.99.1.3 as 174; }
protocol bgp blue from sponsor { neighbor 10.99.1.4 as 6939; }
`

const memberConfig = `router id 10.99.2.1;
protocol device {}
protocol bgp weir {
	local 10.99.2.1 as 64999; neighbor 10.99.0.2 as 65500; strict bind yes;
	password "secret of freifunk"; ttl security on;
	enforce first as off;
	connect delay time 1; connect retry time 1; error wait time 1, 2;
	graceful restart on;
	ipv4 { import all; export all; add paths rx; };
	ipv6 { import all; export all; add paths rx; };
}
protocol bgp weir6 {
	local 2001:db8:99::21 as 64999; neighbor 2001:db8:99::ee as 65500; strict bind yes;
	password "secret of freifunk"; ttl security on;
	enforce first as off; graceful restart on;
	connect delay time 1; connect retry time 1; error wait time 1, 2;
	ipv6 { import all; export none; add paths rx; };
}
protocol static { ipv4; route 203.0.113.0/24 unreachable; }
`

// daemon is a BIRD in a namespace.
type daemon struct {
	t      *testing.T
	socket string
	kill   func()
}

func (x *exchange) bird(ns *netns.Namespace, config string, flags ...string) *daemon {
	x.t.Helper()
	folder := x.t.TempDir()
	d := &daemon{t: x.t, socket: filepath.Join(folder, "ctl")}
	testutil.Write(x.t, filepath.Join(folder, "bird.conf"), config)
	words := append([]string{"netns", "exec", ns.Name, "bird", "-f", "-c", filepath.Join(folder, "bird.conf"), "-s", d.socket}, flags...)
	command := exec.Command(testutil.Command(x.t, "ip"), words...)
	var said bytes.Buffer
	command.Stdout, command.Stderr = &said, &said
	if err := command.Start(); err != nil {
		x.t.Fatal(err)
	}
	d.kill = sync.OnceFunc(func() {
		_ = command.Process.Kill()
		_ = command.Wait()
		if x.t.Failed() {
			x.t.Log(said.String())
		}
	})
	x.t.Cleanup(d.kill)
	testutil.Eventually(x.t, patience, "BIRD", func() bool { return strings.Contains(d.show("status"), "up and running") })
	return d
}

// show returns the output of birdc show.
func (d *daemon) show(words ...string) string {
	out, _ := exec.Command("birdc", append([]string{"-s", d.socket, "show"}, words...)...).CombinedOutput()
	return string(out)
}

// serve starts Weir in the hub; the returned function kills it.
func (x *exchange) serve() (kill func()) {
	x.t.Helper()
	x.weir = exec.Command(testutil.Command(x.t, "ip"), "netns", "exec", x.hub.Name, os.Args[0])
	x.weir.Env = append(os.Environ(), serveVariable+"="+x.folder)
	x.weir.Stdout, x.weir.Stderr = &x.output, &x.output
	if err := x.weir.Start(); err != nil {
		x.t.Fatal(err)
	}
	command, killed := x.weir, false
	kill = func() {
		if !killed {
			killed = true
			_ = command.Process.Kill()
			_ = command.Wait()
		}
	}
	x.t.Cleanup(func() {
		kill()
		if x.t.Failed() {
			x.t.Log(x.output.String())
		}
	})
	return kill
}

func (x *exchange) status() Status {
	s, _ := Client{filepath.Join(x.folder, "ix.sock")}.Status(context.Background())
	return s
}

// dialIn connects from an address in a namespace.
func (x *exchange) dialIn(ns *netns.Namespace, from, to string) net.Conn {
	x.t.Helper()
	var conn net.Conn
	testutil.Eventually(x.t, patience, "a connection to "+to, func() bool {
		err := ns.Do(func() (err error) {
			d := net.Dialer{LocalAddr: &net.TCPAddr{IP: netip.MustParseAddr(from).AsSlice()}, Timeout: time.Second}
			conn, err = d.Dial("tcp", to+":179")
			return err
		})
		return err == nil
	})
	x.t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// sponsor is a sponsor's router with a session to BIRD.
func (x *exchange) sponsor(n int) *bird {
	x.t.Helper()
	b, _ := x.play(n)
	return b
}

// play is sponsor; the channel is closed when the session has ended.
func (x *exchange) play(n int) (*bird, <-chan struct{}) {
	x.t.Helper()
	open := wire.Open{GracefulRestart: &wire.GracefulRestart{Time: 120}, AS: ases[n], HoldTime: 90, ID: netip.AddrFrom4([4]byte{10, 99, 1, byte(n + 1)}), Families: families[:], AS4: true}
	var s *session.Session
	testutil.Eventually(x.t, patience, "a sponsor's session", func() bool {
		var err error
		s, err = session.Open(x.dialIn(x.sponsors, fmt.Sprintf("10.99.1.%d", n+1), "10.99.0.1"), session.Config{Open: open, PeerAS: 65500, OpenWait: 10 * time.Second})
		return err == nil
	})
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			if _, _, err := s.Next(); err != nil {
				return
			}
		}
	}()
	alive := time.NewTicker(10 * time.Second)
	x.t.Cleanup(alive.Stop)
	go func() {
		for range alive.C {
			if s.Keepalive() != nil {
				return
			}
		}
	}()
	return &bird{s, wire.Outbound{Coding: wire.Coding{AS4: true}, Max: wire.MaxMessage}}, ended
}

const labPrefixes = 40

// full makes all sponsors announce all prefixes of both families.
func (x *exchange) full() (all []*bird) {
	for n := range ases {
		b := x.sponsor(n)
		x.table(b, n)
		all = append(all, b)
	}
	return all
}

// table makes a sponsor announce all prefixes.
func (x *exchange) table(b *bird, n int) {
	for i := range labPrefixes {
		b.announce(x.t, fmt.Sprintf("192.0.%d.0/24", i+10), 0, n, uint32(3000+(i+n)%7), 64500)
		b.announce(x.t, fmt.Sprintf("2001:db8:%d::/48", i+10), 0, n, uint32(3000+(i+n)%7), 64500)
	}
	b.end(x.t)
}

// routes returns the number of routes of a protocol in BIRD.
func (d *daemon) routes(protocol string) (n int) {
	for _, line := range strings.Split(d.show("route", "protocol", protocol, "count"), "\n") {
		var routes, networks int
		if _, err := fmt.Sscanf(line, "%d of %d routes for %d networks", &routes, new(int), &networks); err == nil {
			n += routes
		}
	}
	return n
}

// hubPart is BIRD's configuration with the part of weir ix bird.
func hubPart(t *testing.T) string {
	e, err := config.Parse("ix.yaml", []byte(exchangeFile))
	if err != nil {
		t.Fatal(err)
	}
	var feed strings.Builder
	if err := birdconf.Write(&feed, e); err != nil {
		t.Fatal(err)
	}
	return hubConfig + feed.String()
}

// A kill -9 of BIRD leaves the member with all paths, since a BIRD with -R sends End-of-RIB after
// that of the sponsors.
func TestBIRDIsKilled(t *testing.T) {
	t.Parallel()
	x := newExchange(t, exchangeFile)
	hub := x.bird(x.hub, hubPart(t))
	_ = x.serve()
	var ends []<-chan struct{}
	for n := range ases {
		b, ended := x.play(n)
		x.table(b, n)
		ends = append(ends, ended)
	}
	member := x.bird(x.member, memberConfig)
	const all = 2 * 3 * labPrefixes
	complete := func() bool { return member.routes("weir") == all }
	testutil.Eventually(t, patience, "three paths to each prefix", complete)
	for range max(1, *kills/2) {
		hub.kill()
		hub = x.bird(x.hub, hubPart(t), "-R")
		testutil.Eventually(t, patience, "Weir's new session with BIRD", func() bool { return x.status().Feed.Established && x.status().Feed.Former })
		for n := range ends {
			<-ends[n]
			var b *bird
			b, ends[n] = x.play(n)
			x.table(b, n)
			if !complete() {
				t.Errorf("the member has %d routes instead of %d while BIRD restarts", member.routes("weir"), all)
			}
		}
		testutil.Eventually(t, patience, "End-of-RIB of BIRD", func() bool {
			if !complete() {
				t.Errorf("the member has %d routes instead of %d while BIRD restarts", member.routes("weir"), all)
				return true
			}
			return !x.status().Feed.Former
		})
		if st := x.status(); !complete() || st.Table.Paths != 2*len(ases)*labPrefixes {
			t.Errorf("after a restart of BIRD: %d routes, %+v", member.routes("weir"), st.Table)
		}
	}
	for _, m := range x.status().Members {
		if m.Name == "freifunk" && m.Reason != "" {
			t.Errorf("the member's session has ended: %s", m.Reason)
		}
	}
}

// BIRD receives the sponsors' paths, Weir chooses three of four, and a BIRD member has them. Each
// kill -9 of Weir leaves the member with all paths and the same identifiers.
func TestBesideBIRD(t *testing.T) {
	t.Parallel()
	x := newExchange(t, exchangeFile)
	hub := x.bird(x.hub, hubPart(t))
	kill := x.serve()
	sponsors := x.full()
	member := x.bird(x.member, memberConfig)
	const all = 2 * 3 * labPrefixes
	testutil.Eventually(t, patience, "three paths to each prefix", func() bool { return member.routes("weir") == all })
	probe := join(t, x.dialIn(x.member, "10.99.2.3", "10.99.0.2"), routerOpen(64998, "10.99.2.3"))
	probe.complete()
	before := probe.all()
	testutil.Eventually(t, patience, "the paths over IPv6", func() bool { return member.routes("weir6") == all/2 })
	if st := x.status(); !st.Feed.Established || !st.Complete || st.Table.Paths != 2*len(ases)*labPrefixes || st.Counts.MemberRoutes == 0 || st.Counts.UnknownNextHop != 0 {
		t.Errorf("status: %+v", st)
	}
	testutil.Eventually(t, patience, "a snapshot", func() bool {
		info, err := os.Stat(filepath.Join(x.folder, snapshotName))
		return err == nil && info.Size() > 0
	})
	for range *kills {
		kill()
		kill = x.serve()
		// A kill before a member has its table would end its stale paths (RFC 4724, section 4.2).
		testutil.Eventually(t, patience, "the member's sessions after a kill", func() bool {
			if n := member.routes("weir"); n != all {
				t.Errorf("the member has %d routes instead of %d during a restart", n, all)
				return true
			}
			synced := 0
			for _, m := range x.status().Members {
				if m.Name == "freifunk" && m.Synced {
					synced++
				}
			}
			return synced == 2 && x.status().Complete
		})
		probe = join(t, x.dialIn(x.member, "10.99.2.3", "10.99.0.2"), routerOpen(64998, "10.99.2.3"))
		probe.complete()
		for p, paths := range before {
			if now := probe.all()[p]; fmt.Sprint(now) != fmt.Sprint(paths) {
				t.Errorf("%v has %v after a restart instead of %v", p, len(now), len(paths))
			}
		}
	}
	// The loss of a sponsor: nothing of it stays at the member.
	sponsors[1].session.Close()
	testutil.Eventually(t, patience, "no path of the lost sponsor", func() bool {
		return member.routes("weir") == all && !strings.Contains(member.show("route", "all"), "10.99.1.2")
	})
	if t.Failed() {
		t.Log(hub.show("protocols", "all"))
		t.Log(member.show("protocols", "all"))
	}
}
