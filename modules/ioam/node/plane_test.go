// SPDX-License-Identifier: Apache-2.0

package node

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"weir/core/module"
	"weir/kernel/rtnl"
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
