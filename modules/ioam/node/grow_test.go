// SPDX-License-Identifier: Apache-2.0

package node

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"weir/core/match"
	"weir/core/module"
	"weir/kernel/bpffs"
	"weir/kernel/testutil"
)

// manyScopes returns scopes; all but the first have the same options, or each its own.
func manyScopes(n int, same bool) string {
	var text strings.Builder
	text.WriteString(`beta: {prefix: "2001:db8:4::/64", ioam: {namespace: 123, trace: [node], edge: [sequence]}}`)
	for i := range n {
		nodes := 4
		if !same {
			nodes += i
		}
		fmt.Fprintf(&text, `, s%d: {prefix: "2001:db8:f%02x::/48", ioam: {namespace: 123, trace: [node], nodes: %d}}`, i, i, nodes)
	}
	return text.String()
}

// Ten scopes with traces take at most 1.75 MiB on a machine with 128 CPUs, 0.9 MiB of it per-CPU
// state.
func TestMemoryFollowsThePolicy(t *testing.T) {
	c := newChain(t, 1500)
	var text strings.Builder
	for i := range 10 {
		fmt.Fprintf(&text, `s%d: {prefix: "2001:db8:f%02x::/48", ioam: {namespace: 123, trace: [node]}}, `, i, i)
	}
	c.apply(t, "athos", nodePolicy(1, "", "ingress, egress", "", text.String()))
	d, err := open(c.ns["athos"], c.planes["athos"].host.Pins)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = d.close() }()
	sum := 0
	for name, m := range match.Fields(&d.objects.ioamMaps) {
		octets := testutil.MapMemory(t, *m, 128)
		t.Logf("%s: %d octets (%s, %d)", name, octets, (*m).Type(), (*m).MaxEntries())
		sum += octets
	}
	if t.Logf("%d octets", sum); sum > 7<<20/4 {
		t.Errorf("the maps take %d octets, want %d at most", sum, 7<<20/4)
	}
}

// A data plane that grows keeps counters, sequence numbers and the saved MTU. A crash during the
// growth is repaired.
func TestADataPlaneGrowsWithItsPolicy(t *testing.T) {
	c := newChain(t, 1500)
	c.domain(t, "trace: [node], edge: [sequence]")
	from, to := c.datagrams(t)
	exchange := func(label string) {
		t.Helper()
		for range 5 {
			if _, err := unix.Write(from, []byte("weir")); err != nil {
				t.Fatal(label, err)
			}
			if _, err := testutil.Read(to, make([]byte, 10)); err != nil {
				t.Fatal(label, err)
			}
		}
	}
	plane := c.planes["athos"]
	entries := func() (scopes, numbers uint32) {
		t.Helper()
		d, err := open(c.ns["athos"], plane.host.Pins)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = d.close() }()
		return d.objects.IoamScopes.MaxEntries(), d.objects.IoamTemplates.MaxEntries() - 1
	}
	policyOf := func(scopes string) string { return nodePolicy(1, "", "ingress, egress", "", scopes) }
	exchange("at first")
	if scopes, numbers := entries(); scopes != uint32(module.Entries(2)) || numbers != 2 {
		t.Errorf("room for %d scopes and %d encapsulations", scopes, numbers)
	}
	c.apply(t, "athos", policyOf(manyScopes(20, true)))
	exchange("with more scopes")
	if scopes, numbers := entries(); scopes != uint32(module.Entries(21)) || numbers != 4 {
		t.Errorf("with more scopes room for %d scopes and %d encapsulations", scopes, numbers)
	}
	c.apply(t, "athos", policyOf(manyScopes(20, false)))
	exchange("with more encapsulations")
	if _, numbers := entries(); numbers != 42 {
		t.Errorf("room for %d encapsulations", numbers)
	}
	// Crashes with a complete replacement, and before that.
	old, next := filepath.Join(plane.host.Pins, "templates"), filepath.Join(plane.host.Pins, "templates"+bpffs.NextSuffix)
	for _, complete := range []bool{true, false} {
		d, err := open(c.ns["athos"], plane.host.Pins)
		if err != nil {
			t.Fatal(err)
		}
		other, err := d.objects.IoamTemplates.Clone() // otherwise the pin would move
		if err != nil {
			t.Fatal(err)
		}
		err = errors.Join(other.Pin(next), other.Close(), d.close())
		if complete {
			err = errors.Join(err, os.Remove(old), os.Mkdir(filepath.Join(plane.host.Pins, bpffs.Replaced), 0o700))
		}
		if err != nil {
			t.Fatal(err)
		}
		if in, err := plane.InPlace(c.states["athos"]); err != nil || in {
			t.Errorf("after a crash, all there %t: in place: %t, %v", complete, in, err)
		}
		c.apply(t, "athos", policyOf(manyScopes(20, false)))
		exchange("after a crash")
	}
	c.apply(t, "athos", policyOf(manyScopes(0, false)))
	exchange("at last")
	report, err := plane.Report(c.states["athos"])
	if err != nil || len(report.Rows) != 1 || report.Rows[0].Values[2].Count != 30 {
		t.Errorf("%+v (%v), want 30 packets with options", report.Rows, err)
	}
	flows, err := Edges(c.planes["aramis"].host.Pins)
	if err != nil || len(flows) != 1 || flows[0].Packets != 30 || flows[0].Lost+flows[0].Reordered+flows[0].Restarts != 0 {
		t.Errorf("%+v (%v), want 30 packets of a flow in order", flows, err)
	}
	if released, err := plane.Release(); err != nil || !released {
		t.Errorf("released: %t, %v", released, err)
	}
}
