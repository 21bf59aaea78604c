// SPDX-License-Identifier: Apache-2.0

package node

import (
	"bytes"
	"fmt"
	"net/netip"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"weir/kernel/testutil"
	"weir/modules/ioam/codec"
	"weir/modules/ioam/collect"
)

var (
	entry = netip.MustParseAddr("2001:db8:9::1")
	end   = netip.MustParseAddr("2001:db8:9::2")
)

// All packets get an outer IPv6 header. At its end the packet is as before, except for congestion
// marks.
func TestATunnelCarriesOptions(t *testing.T) {
	first, last := aNode(full), full
	first.Node.Address = entry
	last.Remove = true
	exit := aNode(last)
	exit.Node.Address = end
	tunnel := aScope(Encapsulation{Options: []Option{aTrace}, Tunnel: end})
	in, out := newBench(t, first, tunnel), newBench(t, exit)
	other := hop(codec.NewTrace(9, codec.HopLimitNode, 1, 0)) // inside: not processed en route
	for _, test := range []struct {
		name         string
		headers      []byte
		inner, outer byte // ECN as sent, and as set en route; 0xff leaves it
		want         byte
		verdict      uint32
	}{
		{"plain", nil, 0, 0xff, 0, unspec},
		{"with options", other, 0, 0xff, 0, unspec},
		{"congested", nil, 2, 3, 3, unspec},
		{"congested before", nil, 3, 0xff, 3, unspec},
		{"congested, and the inner one cannot say so", nil, 0, 3, 0, shot},
		{"unmarked", nil, 1, 0xff, 1, unspec},
	} {
		in.again(first, tunnel)
		sent := packet(0, test.headers, 100)
		sent[ethernet+1] |= test.inner<<4 | 5
		verdict, got := in.run(in.objects.IoamEgress, sent, skb{From: 1})
		if verdict != unspec || checkIP6(t, got) != 0 {
			t.Fatalf("%s: verdict %d, %x", test.name, verdict, got)
		}
		checkOuter(t, sent, got)
		if test.outer != 0xff {
			got[ethernet+1] = got[ethernet+1]&^0x30 | test.outer<<4
			sent[ethernet+1] = sent[ethernet+1]&^0x30 | test.want<<4
		}
		if verdict, got = out.run(out.objects.IoamIngress, got, skb{}); verdict != test.verdict || verdict == unspec && !bytes.Equal(got, sent) {
			t.Errorf("%s: verdict %d, %x, want %x", test.name, verdict, got, sent)
		}
	}
	// A node removes only its own tunnel's header, and none behind options of others.
	_, got := in.run(in.objects.IoamEgress, packet(0, nil, 10), skb{})
	exit.Node.Address = entry
	out.set(exit)
	if verdict, left := out.run(out.objects.IoamIngress, got, skb{}); verdict != unspec || left[ethernet+6] != 41 {
		t.Errorf("for another node: verdict %d, %x", verdict, left)
	}
}

// checkOuter checks the outer header of a packet and its trace.
func checkOuter(t *testing.T, sent, got []byte) {
	t.Helper()
	h, err := codec.DecodeHeader(got[atOptions:])
	if err != nil || h.NextHeader != 41 || len(h.Options) != 1 || !bytes.Equal(got[atOptions+h.Length:], sent[ethernet:]) {
		t.Fatalf("%v: %x around %x", err, got, sent)
	}
	addresses := append(entry.AsSlice(), end.AsSlice()...)
	if ip := got[ethernet:atOptions]; !bytes.Equal(ip[:4], sent[ethernet:ethernet+4]) || ip[7] != 64 || !bytes.Equal(ip[8:], addresses) {
		t.Errorf("the outer header is %x", ip)
	}
	want := expected(full)
	want.HopLimit = 64
	trace, err := codec.DecodeTrace(h.Options[0].Type, h.Options[0].Data)
	if err != nil || len(trace.Nodes) != 1 || trace.Nodes[0].HopLimit != 64 || trace.Nodes[0].ID != want.ID {
		t.Errorf("%v: %+v", err, trace)
	}
}

// tunnelDomain makes athos tunnel packets to beta to aramis.
func (c *chain) tunnelDomain(t *testing.T, treatment string) {
	t.Helper()
	athos, aramis := address(1, 0), address(2, 1)
	node := func(id int, own netip.Addr, roles, namespace, scopes string) string {
		return fmt.Sprintf("\nioam:\n  node: %d\n  address: %s\n  interfaces: {left: {roles: [%s]}, right: {roles: [%s], reserve: true}}\n  namespaces: {123: {loopback: true%s}}\nscopes: {%s}\n",
			id, own, map[bool]string{true: "ingress, egress"}[id > 1], roles, namespace, scopes)
	}
	scope := fmt.Sprintf(`beta: {prefix: "2001:db8:4::/64", ioam: {namespace: 123, tunnel: "%s", %s}}`, aramis, treatment)
	c.apply(t, "athos", node(1, athos, "ingress, egress", "", scope))
	c.apply(t, "porthos", node(2, address(1, 1), "ingress, egress", "", ""))
	c.apply(t, "aramis", node(3, aramis, "", ", remove: true", ""))
}

// Packets of alpha cross the domain in a tunnel of athos. Records of aramis have the inner flow;
// returned copies end at athos.
func TestForwardedPacketsAreTunnelled(t *testing.T) {
	c := newChain(t, 1500)
	c.tunnelDomain(t, "trace: [node], loopback: true")
	reader, back := c.reader(t, "aramis"), c.reader(t, "athos")
	from, to := c.datagrams(t)
	sent := bytes.Repeat([]byte("weir"), 300)
	if _, err := unix.Write(from, sent); err != nil {
		t.Fatal(err)
	}
	got := make([]byte, 2000)
	if n, err := testutil.Read(to, got); err != nil || !bytes.Equal(got[:n], sent) {
		t.Fatalf("beta got %d octets: %v", n, err)
	}
	r := next(t, reader)
	if r.Flow != (collect.Flow{Source: alpha, Destination: beta, SourcePort: 4000, DestinationPort: 5000, Protocol: 17}) || len(r.Traces) != 1 || len(r.Traces[0].Hops) != 3 {
		t.Fatalf("%+v", r)
	}
	for range 2 {
		if r := next(t, back); !r.Looped || r.Flow.Destination != address(1, 0) || r.Length > 40+48+58 {
			t.Errorf("%+v", r)
		}
	}
	for node, name := range map[string]string{"athos": "returned", "porthos": "looped", "aramis": "removed"} {
		if n := c.count(t, node, name); n == 0 || c.count(t, node, "node_failed") != 0 {
			t.Errorf("%s: %s is %d, and %d failed", node, name, n, c.count(t, node, "node_failed"))
		}
	}
}

// TCP super-packets pass a tunnel; the kernel segments them for devices without offload.
func TestStreamsPassATunnel(t *testing.T) {
	for name, devices := range map[string][]string{"whole": nil, "cut at the first node": {"athos"}, "cut behind the last": {"aramis"}, "cut on the way": {"porthos"}} {
		t.Run(name, func(t *testing.T) {
			c := newChain(t, 1500)
			c.tunnelDomain(t, allFields)
			for _, node := range devices {
				if _, err := inside(c.ns[node], testutil.Command(t, "ethtool"), "-K", "right", "tso", "off", "gso", "off"); err != nil {
					t.Fatal(err)
				}
			}
			c.passStream(t)
		})
	}
}

// A sender learns the MTU of a tunnel.
func TestTheMTUOfATunnelIsLearned(t *testing.T) {
	c := newChain(t, 1500)
	c.tunnelDomain(t, "trace: [node], nodes: 2")
	from, to := c.datagrams(t)
	if err := unix.SetsockoptInt(from, unix.IPPROTO_IPV6, unix.IPV6_MTU_DISCOVER, unix.IPV6_PMTUDISC_DO); err != nil {
		t.Fatal(err)
	}
	const fits = 1500 - 40 - 24 // without the outer header and the trace's header
	if _, err := unix.Write(from, make([]byte, 1452)); err != nil {
		t.Fatal(err)
	}
	testutil.Eventually(t, 10*time.Second, "Packet Too Big", func() bool {
		mtu, err := unix.GetsockoptInt(from, unix.IPPROTO_IPV6, unix.IPV6_MTU)
		return err == nil && mtu == fits
	})
	_, _ = unix.GetsockoptInt(from, unix.SOL_SOCKET, unix.SO_ERROR)
	if _, err := unix.Write(from, make([]byte, fits-48)); err != nil {
		t.Fatal(err)
	}
	if n, err := testutil.Read(to, make([]byte, 2000)); err != nil || n != fits-48 {
		t.Errorf("beta got %d octets, want %d: %v", n, fits-48, err)
	}
	if counts := c.scope(t, "athos"); counts.Encapsulated != 1 || counts.TooLong != 0 {
		t.Errorf("athos: %+v", counts)
	}
}
