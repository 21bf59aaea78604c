// SPDX-License-Identifier: Apache-2.0

// Package conformance is the test suite of all backends of offload. A router of veth devices
// forwards frames by its kernel, then by the backend. The outputs must be identical, byte by byte.
//
//	left: l ==== p0 [router] p1 ==== r :right
//
// Both cables have VLANs if the kernel supports them. p0 and p1 may be bonds. Neighbours are static
// entries without hosts: the suite captures the frames for them.
package conformance

import (
	"fmt"
	"net/netip"
	"os/exec"
	"strings"
	"testing"
	"time"

	"weir/kernel/ethtool"
	"weir/kernel/netns"
	"weir/kernel/sysctl"
	"weir/kernel/testutil"
	"weir/modules/offload/live"
	"weir/modules/offload/plan"
	"weir/modules/offload/state"
)

// Backend installs a plan on the router.
type Backend interface {
	// Install returns a function that counts packets forwarded by the backend. The plan is active
	// until the test ends.
	Install(t testing.TB, router *netns.Namespace, p *plan.Planner) (forwarded func() uint64)
}

// Bench is one router.
type Bench struct {
	Router, left, right *netns.Namespace
	VLANs               bool
	links               []link
	sockets             [2]*socket // at l and r
	state               *state.State
	number              uint32
}

// Far is the namespace on the right, behind the router's port p1.
func (b *Bench) Far() *netns.Namespace { return b.right }

// link is one of the router's.
type link struct {
	name  string
	side  int // 0 left, 1 right
	vlan  int
	net   int // 10.NET.0.0/24 and 2001:db8:NET::/64
	index int
	mac   state.MAC
}

func (b *Bench) ip(t testing.TB, line string, args ...any) {
	t.Helper()
	line = fmt.Sprintf(line, args...)
	if out, err := exec.Command("ip", append([]string{"-n", b.Router.Name}, strings.Fields(line)...)...).CombinedOutput(); err != nil {
		t.Fatalf("ip %s: %v\n%s", line, err, out)
	}
}

// HasVLANs reports whether the kernel has VLAN devices.
func HasVLANs(t testing.TB) bool {
	ns := testutil.Namespace(t, "probe")
	ip := func(words ...string) error {
		return exec.Command("ip", append([]string{"-n", ns.Name, "link", "add"}, words...)...).Run()
	}
	return ip("veth0", "type", "veth", "peer", "name", "veth1") == nil && ip("link", "veth0", "name", "tagged", "type", "vlan", "id", "5") == nil
}

// NewBench makes a router.
func NewBench(t testing.TB) *Bench {
	t.Helper()
	return newBench(t, (*Bench).cable)
}

// NewBonded returns a router with bonds as ports.
func NewBonded(t testing.TB) *Bench {
	t.Helper()
	testutil.Need(t, "bonding", bonding(t))
	return newBench(t, (*Bench).bond)
}

// cable connects a port.
func (b *Bench) cable(t testing.TB, port, far string, at *netns.Namespace) {
	b.ip(t, "link add %s type veth peer name %s netns %s", port, far, at.Name)
}

// newBench has connect make the ports.
func newBench(t testing.TB, connect func(b *Bench, t testing.TB, port, far string, at *netns.Namespace)) *Bench {
	t.Helper()
	testutil.Command(t, "ip")
	b := &Bench{Router: testutil.Namespace(t, "router"), left: testutil.Namespace(t, "left"), right: testutil.Namespace(t, "right"), VLANs: HasVLANs(t)}
	connect(b, t, "p0", "l", b.left)
	connect(b, t, "p1", "r", b.right)
	for key, value := range map[string]string{
		"net.ipv4.conf.all.forwarding": "1", "net.ipv6.conf.all.forwarding": "1", "net.ipv4.icmp_ratelimit": "0", "net.ipv4.icmp_ratemask": "0",
		"net.ipv6.icmp.ratelimit": "0", "net.ipv6.icmp.ratemask": "0", "net.ipv4.conf.all.rp_filter": "0", "net.ipv4.conf.default.rp_filter": "0",
		"net.ipv6.conf.default.accept_dad": "0", "net.ipv6.conf.default.addr_gen_mode": "1", "net.ipv6.conf.default.forwarding": "1",
		"net.ipv6.conf.all.accept_ra": "0",
	} {
		if err := sysctl.Set(b.Router, key, value); err != nil {
			t.Fatal(err)
		}
	}
	b.links = []link{{name: "p0", net: 1}, {name: "p1", side: 1, net: 2}}
	if b.VLANs {
		b.links = append(b.links, link{name: "p0.10", vlan: 10, net: 10}, link{name: "p0.20", vlan: 20, net: 20}, link{name: "p1.30", side: 1, vlan: 30, net: 30})
	}
	b.configure(t)
	for side, dev := range []string{"l", "r"} {
		ns := []*netns.Namespace{b.left, b.right}[side]
		if out, err := exec.Command("ip", "-n", ns.Name, "link", "set", "dev", dev, "up").CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		// A veth drops redirected frames unless its peer has NAPI.
		if err := ethtool.SetFeatures(ns, dev, map[string]bool{"gro": true}); err != nil {
			t.Fatal(err)
		}
		other, err := live.Read(ns)
		if err != nil {
			t.Fatal(err)
		}
		l, _ := other.Find(dev)
		b.sockets[side] = openSocket(t, ns, l.Index)
	}
	// The carrier of a bond follows that of its devices; VLANs, which have no routes until then,
	// come last.
	testutil.Eventually(t, time.Minute, "the carriers of all links", func() bool {
		b.Read(t)
		for _, l := range b.links {
			if l, _ := b.state.Find(l.name); !l.Lower {
				return false
			}
		}
		return true
	})
	b.awaitForwarding(t)
	return b
}

// configure gives the router its links, addresses, neighbours and routes.
func (b *Bench) configure(t testing.TB) {
	t.Helper()
	for _, l := range b.links {
		if l.vlan != 0 {
			b.ip(t, "link add link p%d name %s type vlan id %d", l.side, l.name, l.vlan)
		}
		b.ip(t, "link set dev %s up", l.name)
		b.ip(t, "addr add 10.%d.0.1/24 dev %s", l.net, l.name)
		b.ip(t, "-6 addr add 2001:db8:%d::1/64 dev %s nodad", l.net, l.name)
		for host := 2; host < 4; host++ {
			b.ip(t, "neigh add 10.%d.0.%d lladdr 02:aa:00:00:%02x:%02x dev %s nud permanent", l.net, host, l.net, host, l.name)
			b.ip(t, "neigh add 2001:db8:%d::%d lladdr 02:aa:00:00:%02x:%02x dev %s nud permanent", l.net, host, l.net, host, l.name)
		}
	}
	routes := []string{
		"100.64.0.0/16 via 10.2.0.2", "100.64.128.0/17 via 10.1.0.3", "100.64.200.0/24 via 10.2.0.3", "blackhole 100.64.200.5/32",
		"100.65.0.0/16 nexthop via 10.2.0.2 weight 1 nexthop via 10.2.0.3 weight 3", "100.66.0.0/16 via 10.2.0.9", "100.67.0.0/16 via 10.2.0.2 mtu 1000",
		"unreachable 100.68.0.0/16", "100.64.0.0/30 via 10.1.0.2", "100.64.255.255/32 via 10.2.0.3",
		"2001:db8:6400::/40 via 2001:db8:2::2", "2001:db8:6480::/41 via 2001:db8:1::3", "2001:db8:64c8::/48 via 2001:db8:2::3",
		"blackhole 2001:db8:64c8::5/128", "2001:db8:6500::/40 nexthop via 2001:db8:2::2 nexthop via 2001:db8:2::3", "2001:db8:6600::/40 via 2001:db8:2::9",
		"unreachable 2001:db8:6800::/40", "2001:db8:6400::/127 via 2001:db8:1::2",
	}
	if b.VLANs {
		routes = append(routes, "100.70.0.0/16 via 10.10.0.2", "100.71.0.0/16 via 10.20.0.3", "100.72.0.0/16 via 10.30.0.2",
			"2001:db8:7000::/40 via 2001:db8:10::2", "2001:db8:7100::/40 via 2001:db8:20::3", "2001:db8:7200::/40 via 2001:db8:30::2")
	}
	for _, r := range routes {
		if strings.Contains(r, ":") {
			b.ip(t, "-6 route add %s", r)
		} else {
			b.ip(t, "route add %s", r)
		}
	}
}

// Read reads the current state of the router.
func (b *Bench) Read(t testing.TB) {
	t.Helper()
	s, err := live.Read(b.Router)
	if err != nil {
		t.Fatal(err)
	}
	b.state = s
	for i := range b.links {
		l, _ := s.Find(b.links[i].name)
		b.links[i].index, b.links[i].mac = l.Index, l.MAC
	}
}

// Plan plans for all links of the router.
func (b *Bench) Plan(t testing.TB, change func(*plan.Policy)) *plan.Planner {
	t.Helper()
	p := plan.Policy{IPv4: true, IPv6: true}
	for _, l := range b.links {
		p.From = append(p.From, l.name)
	}
	if change != nil {
		change(&p)
	}
	planner, err := plan.New(p, b.state)
	if err != nil {
		t.Fatal(err)
	}
	return planner
}

// host is an address on a link.
func (l link) host(n int, ipv6 bool) netip.Addr {
	if ipv6 {
		return netip.MustParseAddr(fmt.Sprintf("2001:db8:%d::%d", l.net, n))
	}
	return netip.AddrFrom4([4]byte{10, byte(l.net), 0, byte(n)})
}
