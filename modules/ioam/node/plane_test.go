// SPDX-License-Identifier: Apache-2.0

package node

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"weir/core/module"
	"weir/kernel/rtnl"
	"weir/kernel/sysctl"
	"weir/kernel/testutil"
)

// Plan notes name missing interfaces, such as misspelt ones, and unlisted devices.
func TestInterfacesThatAreNotThereAreForeseen(t *testing.T) {
	p, err := Parse("version: 1\nioam: {node: 1, interfaces: {lo: {roles: [ingress]}, nosuch0: {roles: [egress]}}}\nscopes: {}\n")
	if err != nil {
		t.Fatal(err)
	}
	plane := &hostPlane{ns: testutil.Namespace(t, "node")}
	for _, want := range [][]string{{"there is no interface nosuch0"}, {"there is no interface nosuch0", "c0: {}"}} {
		notes := plane.PlanNotes(module.State{Host: p.Host})
		if len(notes) != len(want) || slices.ContainsFunc(want, func(text string) bool { return !strings.Contains(strings.Join(notes, "\n"), text) }) {
			t.Errorf("foreseen: %q, want %q", notes, want)
		}
		if len(want) == 1 { // an unlisted interface, which could receive IOAM from outside
			conn, err := rtnl.Open(plane.ns)
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			if err := errors.Join(conn.AddVeth("c0", testutil.Namespace(t, "container"), "eth0", 0), conn.SetUp("c0")); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// Notes name interfaces where the kernel's own IOAM node records too.
func TestTheKernelsNodeIsNoted(t *testing.T) {
	ns := testutil.Namespace(t, "node")
	err := sysctl.Set(ns, "net/ipv6/conf/lo/ioam6_enabled", "1")
	if errors.Is(err, fs.ErrNotExist) {
		testutil.Need(t, "kernel IOAM", err)
	} else if err != nil {
		t.Fatal(err)
	}
	p, err := Parse("version: 1\nioam: {node: 1, interfaces: {lo: {roles: [ingress]}}}\nscopes: {}\n")
	if err != nil {
		t.Fatal(err)
	}
	notes := strings.Join((&hostPlane{ns: ns}).PlanNotes(module.State{Host: p.Host}), "\n")
	if !strings.Contains(notes, "net.ipv6.conf.lo.ioam6_enabled=0") {
		t.Errorf("notes: %q", notes)
	}
}

// After a change of a device's MTU the node stays in place and encapsulates up to the new one. A
// reserve that the kernel reset is not in place.
func TestAnMTUChanges(t *testing.T) {
	for _, reserve := range []bool{false, true} {
		c := newChain(t, 1500)
		c.apply(t, "athos", strings.Replace(nodePolicy(1, "", "ingress, egress", "", `beta: {prefix: "2001:db8:4::/64", ioam: {namespace: 123, trace: [node], nodes: 3}}`),
			"reserve: true", fmt.Sprintf("reserve: %t", reserve), 1))
		c.apply(t, "porthos", nodePolicy(2, "ingress, egress", "ingress, egress", "", ""))
		c.apply(t, "aramis", nodePolicy(3, "ingress, egress", "", ", remove: true", ""))
		conn, err := rtnl.Open(c.ns["athos"])
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if err := conn.SetMTU("right", 1400); err != nil {
			t.Fatal(err)
		}
		in, err := c.planes["athos"].InPlace(c.states["athos"])
		if err != nil || in == reserve {
			t.Errorf("reserve %t: in place %t, %v", reserve, in, err)
		}
		if reserve {
			continue
		}
		from, to := c.datagrams(t)
		for _, size := range []int{1400 - 48, 1400 - 48 - 40} {
			if _, err := unix.Write(from, make([]byte, size)); err != nil {
				t.Fatal(err)
			}
			if n, err := testutil.Read(to, make([]byte, 2000)); err != nil || n != size {
				t.Fatalf("beta got %d bytes, %v", n, err)
			}
		}
		if s := c.scope(t, "athos"); s.TooLong != 1 || s.Encapsulated != 1 {
			t.Errorf("%d too long, %d encapsulated, want 1 each", s.TooLong, s.Encapsulated)
		}
	}
}
