// SPDX-License-Identifier: Apache-2.0

package node

import (
	"fmt"
	"os/exec"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"weir/kernel/netns"
	"weir/kernel/sysctl"
	"weir/kernel/testutil"
)

// inside runs a command in a network namespace.
func inside(ns *netns.Namespace, name string, args ...string) (string, error) {
	var out []byte
	err := ns.Do(func() (err error) {
		out, err = exec.Command(name, args...).CombinedOutput()
		return err
	})
	if err != nil {
		err = fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, out)
	}
	return string(out), err
}

// linuxNode makes a node of the chain a node of the kernel's own ioam6.
func (c *chain) linuxNode(t *testing.T, node string, id int) {
	t.Helper()
	ip := testutil.Command(t, "ip")
	if _, err := inside(c.ns[node], ip, "ioam", "namespace", "add", "123", "data", "0xbeef"); err != nil {
		testutil.Need(t, "ioam-transit", err)
	}
	settings := map[string]int{"net.ipv6.ioam6_id": id}
	for i, dev := range []string{"left", "right"} {
		if node == "alpha" && dev == "left" {
			continue
		}
		settings["net.ipv6.conf."+dev+".ioam6_enabled"], settings["net.ipv6.conf."+dev+".ioam6_id"] = 1, 10*id+i
	}
	for key, value := range settings {
		if err := sysctl.Set(c.ns[node], key, fmt.Sprint(value)); err != nil {
			t.Fatal(err)
		}
	}
}

// With the kernel's transit node between Weir's edges, each reads the data of the other.
func TestTheKernelIsATransitNode(t *testing.T) {
	c := newChain(t, 1500)
	c.domain(t, "trace: [node, interfaces, timestamps, data, wide_node], nodes: 3")
	if _, err := c.planes["porthos"].Release(); err != nil {
		t.Fatal(err)
	}
	c.linuxNode(t, "porthos", 77)
	reader := c.reader(t, "aramis")
	from, to := c.datagrams(t)
	if _, err := unix.Write(from, []byte("weir")); err != nil {
		t.Fatal(err)
	}
	if n, err := testutil.Read(to, make([]byte, 10)); err != nil || n != 4 {
		t.Fatal(n, err)
	}
	r := next(t, reader)
	hops := r.Traces[0].Hops
	if len(hops) != 3 || hops[0].Node != 1 || hops[2].Node != 3 {
		t.Fatalf("%+v", r.Traces)
	}
	porthos := hops[1]
	if porthos.HopLimit != 62 || porthos.Ingress.Value != 770 || porthos.Egress.Value != 771 || porthos.Data.Value != 0xbeef {
		t.Errorf("porthos says %+v", porthos)
	}
	if !hops[0].Received.Known || porthos.Received.Value < hops[0].Received.Value || hops[2].Received.Value < porthos.Received.Value {
		t.Errorf("times are %v, %v and %v", hops[0].Received, porthos.Received, hops[2].Received)
	}
}

// The kernel encapsulates by a route; Weir records and removes.
func TestTheKernelEncapsulates(t *testing.T) {
	c := newChain(t, 1500)
	ip := testutil.Command(t, "ip")
	c.linuxNode(t, "alpha", 9)
	_, err := inside(c.ns["alpha"], ip, "-6", "route", "replace", "2001:db8:4::/64", "encap", "ioam6", "mode", "inline", "trace", "prealloc",
		"type", "0xf00000", "ns", "123", "size", "64", "via", address(0, 1).String(), "dev", "right")
	testutil.Need(t, "ioam-encapsulation", err)
	c.apply(t, "athos", nodePolicy(1, "ingress, egress", "ingress, egress", "", ""))
	c.apply(t, "porthos", nodePolicy(2, "ingress, egress", "ingress, egress", "", ""))
	c.apply(t, "aramis", nodePolicy(3, "ingress, egress", "", ", remove: true", ""))
	reader := c.reader(t, "aramis")
	from, to := c.datagrams(t)
	if _, err := unix.Write(from, []byte("weir")); err != nil {
		t.Fatal(err)
	}
	if n, err := testutil.Read(to, make([]byte, 10)); err != nil || n != 4 {
		t.Fatal(n, err)
	}
	hops := next(t, reader).Traces[0].Hops
	if len(hops) != 4 || hops[0].Node != 9 || hops[1].Node != 1 || hops[2].Node != 2 || hops[3].Node != 3 {
		t.Errorf("%+v", hops)
	}
}

// Weir encapsulates and records; the receiving kernel skips the options.
func TestAHostWithoutIOAMGetsPackets(t *testing.T) {
	c := newChain(t, 1500)
	c.apply(t, "athos", nodePolicy(1, "", "ingress, egress", "", `beta: {prefix: "2001:db8:4::/64", ioam: {namespace: 123, trace: [node], edge: [sequence, timestamps]}}`))
	from, to := c.datagrams(t)
	if _, err := unix.Write(from, []byte("weir")); err != nil {
		t.Fatal(err)
	}
	if n, err := testutil.Read(to, make([]byte, 10)); err != nil || n != 4 {
		t.Fatal(n, err)
	}
}

// Edge-to-edge sequence numbers reveal loss on the path.
func TestLossIsCountedBetweenEdges(t *testing.T) {
	c := newChain(t, 1500)
	c.domain(t, "edge: [sequence, timestamps]")
	from, to := c.datagrams(t)
	send := func(packets int, arrive bool) {
		for range packets {
			if _, err := unix.Write(from, []byte("weir")); err != nil {
				t.Fatal(err)
			}
			if !arrive {
				continue
			}
			if n, err := testutil.Read(to, make([]byte, 10)); err != nil || n != 4 {
				t.Fatal(n, err)
			}
		}
	}
	send(20, true)
	c.apply(t, "porthos", "ioam: {node: 2, interfaces: {left: {}}}\nscopes: {}") // drops packets with options
	send(5, false)
	testutil.Eventually(t, 10e9, "the drops", func() bool { return c.count(t, "porthos", "from_outside") == 5 })
	c.apply(t, "porthos", nodePolicy(2, "ingress, egress", "ingress, egress", "", ""))
	send(10, true)
	edges, err := Edges(c.planes["aramis"].host.Pins)
	if err != nil || len(edges) != 1 {
		t.Fatal(err, edges)
	}
	e := edges[0]
	if e.Packets != 30 || e.Lost != 5 || e.Reordered != 0 || e.Restarts != 0 || e.Flow.DestinationPort != 5000 {
		t.Errorf("%+v", e)
	}
	// The format rounds times down to microseconds.
	if e.Min <= -2000 || e.Mean < e.Min || e.Max < e.Mean || e.Max > 60e9 {
		t.Errorf("delays are %d, %d and %d ns", e.Min, e.Mean, e.Max)
	}
}

// Direct export: every node sends a postcard, and the packet stays unchanged on its path.
func TestEveryNodeSendsAPostcard(t *testing.T) {
	c := newChain(t, 1500)
	c.domain(t, "export: [node, interfaces, delay]")
	from, to := c.datagrams(t)
	for range 2 {
		if _, err := unix.Write(from, []byte("weir")); err != nil {
			t.Fatal(err)
		}
		if n, err := testutil.Read(to, make([]byte, 10)); err != nil || n != 4 {
			t.Fatal(n, err)
		}
	}
	var flow uint32
	for i, node := range []string{"porthos", "aramis"} {
		reader := c.reader(t, node)
		for sequence := range uint32(2) {
			r := next(t, reader)
			if i == 0 && sequence == 0 {
				flow = r.Export.Flow
			}
			if r.Export == nil || r.Export.Sequence != sequence || r.Export.Flow != flow || r.Traces[0].Hops[0].Node != uint64(i+2) || r.Flow.DestinationPort != 5000 {
				t.Errorf("%s: %+v", node, r)
			}
			if node == "aramis" { // also a record of the end of the options
				if r := next(t, reader); r.Export != nil {
					t.Errorf("%+v", r)
				}
			}
		}
	}
}
