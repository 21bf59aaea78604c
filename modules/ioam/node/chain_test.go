// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"fmt"
	"net/netip"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"weir/core/module"
	"weir/core/selector"
	"weir/kernel/device"
	"weir/kernel/netns"
	"weir/kernel/rtnl"
	"weir/kernel/sysctl"
	"weir/kernel/testutil"
	"weir/modules/ioam/collect"
)

// chain is the paper's path: alpha sends to beta through the domain of athos, porthos and aramis.
type chain struct {
	ns     map[string]*netns.Namespace
	planes map[string]*hostPlane
	states map[string]module.State
	idle   []*device.Attachment // of the benchmark, at devices of the domain
}

var chainNames = []string{"alpha", "athos", "porthos", "aramis", "beta"}

// address returns the address of a node on a numbered link, from 0; side 0 is towards alpha.
func address(link, side int) netip.Addr {
	return netip.MustParseAddr(fmt.Sprintf("2001:db8:%d::%d", link+1, side+1))
}

var (
	alpha = address(0, 0)
	beta  = address(3, 1)
)

// newChain makes the namespaces; links have this MTU. Every node has the devices left, towards
// alpha, and right, towards beta.
func newChain(t testing.TB, mtu int) *chain {
	t.Helper()
	c := &chain{map[string]*netns.Namespace{}, map[string]*hostPlane{}, map[string]module.State{}, nil}
	pins := testutil.BPFFS(t)
	conns := make([]*rtnl.Conn, len(chainNames))
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	for i, name := range chainNames {
		ns := testutil.Namespace(t, name)
		conn, err := rtnl.Open(ns)
		check(err)
		defer conn.Close()
		c.ns[name], conns[i] = ns, conn
		c.planes[name] = &hostPlane{module.Host{Pins: filepath.Join(pins, name), Devices: filepath.Join(pins, name+"-devices")}, ns}
		check(sysctl.Set(ns, "net.ipv6.conf.all.forwarding", "1"))
		t.Cleanup(func() { _, _ = c.planes[name].Release() })
	}
	for i := range len(conns) - 1 {
		check(conns[i].AddVeth("right", c.ns[chainNames[i+1]], "left", mtu))
		for side, end := range map[int]*rtnl.Conn{0: conns[i], 1: conns[i+1]} {
			dev := []string{"right", "left"}[side]
			check(end.SetUp(dev))
			check(end.AddAddress(dev, netip.PrefixFrom(address(i, side), 64)))
		}
	}
	for i := range conns {
		for link := range len(conns) - 1 {
			to := netip.PrefixFrom(address(link, 0), 64).Masked()
			switch {
			case link > i:
				check(conns[i].AddRoute(rtnl.Route{To: to, Via: address(i, 1)}))
			case link < i-1:
				check(conns[i].AddRoute(rtnl.Route{To: to, Via: address(i-1, 0)}))
			}
		}
	}
	return c
}

// stateOf returns the module's state of a policy.
func stateOf(t testing.TB, text string) module.State {
	t.Helper()
	p, err := Parse("version: 1\n" + text)
	if err != nil {
		t.Fatal(err)
	}
	s := module.State{Host: p.Host}
	for i, scope := range p.Scopes {
		binding, err := (&selector.Host{}).Bind(scope.Selector)
		if err != nil {
			t.Fatal(err)
		}
		s.Scopes = append(s.Scopes, module.Bound{Scope: scope, Index: i, Binding: binding, Treatment: scope.Treatments[Name]})
	}
	return s
}

// apply applies a policy on a node.
func (c *chain) apply(t testing.TB, node, text string) []string {
	t.Helper()
	var want module.State
	err := c.ns[node].Do(func() error { want = stateOf(t, text); return nil }) // its interfaces
	if err != nil {
		t.Fatal(err)
	}
	if err := c.planes[node].Ready(want); err != nil {
		t.Fatal(err)
	}
	notes, err := c.planes[node].Apply(c.states[node], want)
	if err != nil {
		t.Fatal(err)
	}
	c.states[node] = want
	if in, err := c.planes[node].InPlace(want); err != nil || !in {
		t.Fatalf("%s: in place: %t, %v", node, in, err)
	}
	return notes
}

// nodePolicy returns the policy of a node of the domain, with more keys in its section, and scopes.
func nodePolicy(id int, left, right, namespace, scopes string) string {
	return fmt.Sprintf(`
ioam:
  node: %d
  interfaces:
    left: {id: %d, roles: [%s]}
    right: {id: %d, roles: [%s], reserve: true}
  namespaces:
    123: {data: %d%s}
scopes: {%s}
`, id, 10*id, left, 10*id+1, right, 1000+id, namespace, scopes)
}

// domain makes athos, porthos and aramis nodes, with this treatment of packets to beta.
func (c *chain) domain(t testing.TB, treatment string) {
	t.Helper()
	c.apply(t, "athos", nodePolicy(1, "", "ingress, egress", "", `beta: {prefix: "2001:db8:4::/64", ioam: {namespace: 123, `+treatment+`}}`))
	c.apply(t, "porthos", nodePolicy(2, "ingress, egress", "ingress, egress", "", ""))
	c.apply(t, "aramis", nodePolicy(3, "ingress, egress", "", ", remove: true", ""))
}

// socket opens a socket inside a node.
func (c *chain) socket(t testing.TB, node string, kind int, at netip.AddrPort) int {
	t.Helper()
	var fd int
	err := c.ns[node].Do(func() (err error) {
		fd, err = unix.Socket(unix.AF_INET6, kind|unix.SOCK_CLOEXEC, 0)
		return err
	})
	if err == nil {
		err = unix.Bind(fd, &unix.SockaddrInet6{Addr: at.Addr().As16(), Port: int(at.Port())})
	}
	if err == nil {
		err = unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: 10})
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Close(fd) })
	return fd
}

// datagrams returns connected UDP sockets of alpha and beta.
func (c *chain) datagrams(t testing.TB) (from, to int) {
	t.Helper()
	from = c.socket(t, "alpha", unix.SOCK_DGRAM, netip.AddrPortFrom(alpha, 4000))
	to = c.socket(t, "beta", unix.SOCK_DGRAM, netip.AddrPortFrom(beta, 5000))
	if err := unix.Connect(from, &unix.SockaddrInet6{Addr: beta.As16(), Port: 5000}); err != nil {
		t.Fatal(err)
	}
	return from, to
}

// reader opens the records of a node.
func (c *chain) reader(t testing.TB, node string) *Reader {
	t.Helper()
	r, err := OpenRecords(c.planes[node].host.Pins)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Close() })
	return r
}

func next(t testing.TB, r *Reader) (record collect.Record) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if err := r.Read(ctx, &record); err != nil {
		t.Fatal(err)
	}
	return record
}

// count returns a counter of a node.
func (c *chain) count(t testing.TB, node, name string) uint64 {
	t.Helper()
	report, err := c.planes[node].Report(c.states[node])
	if err != nil {
		t.Fatal(err)
	}
	for i, f := range hostFields {
		if f.name == name {
			return report.Host[i].Count
		}
	}
	t.Fatalf("no counter %s", name)
	return 0
}
