// SPDX-License-Identifier: Apache-2.0

package limit

import (
	"os"
	"path/filepath"
	"testing"

	"weir/internal/kernel/netns"
	"weir/internal/room"
	"weir/internal/selector"
	"weir/internal/testutil"
)

// spineHost is a host of the test's own, whose open sockets are left alone.
func spineHost(t *testing.T) room.Host {
	t.Helper()
	return room.Host{Pins: filepath.Join(testutil.BPFFS(t), "limit"), CgroupRoot: testutil.Cgroup(t).Path,
		Namespaces: func(func(*netns.Namespace) error) error { return nil }}
}

// bound is what the spine makes of the scopes of a policy: numbered as in index, those that are not
// there from its length on.
func bound(t *testing.T, h room.Host, index map[string]int, text string) (all room.State) {
	t.Helper()
	p, err := parse("p.yaml", []byte("version: 1\nscopes:\n"+text))
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range p.Scopes {
		if _, known := index[s.Name]; !known {
			index[s.Name] = len(index)
		}
		binding, err := (&selector.Host{CgroupRoot: h.CgroupRoot}).Bind(s.Selector)
		if err != nil {
			t.Fatal(err)
		}
		all.Scopes = append(all.Scopes, room.Bound{Scope: s, Index: index[s.Name], Binding: binding, Treatment: s.Treatments[roomName]})
	}
	return all
}

func TestApplyArrangesScopesBelowTheirParents(t *testing.T) {
	h, index := spineHost(t), map[string]int{}
	plane := Room{}.Plane(h)
	have := room.State{}
	lead := func(why, text string) {
		t.Helper()
		want := bound(t, h, index, text)
		if _, err := plane.Apply(have, want); err != nil {
			t.Fatalf("%s: %v", why, err)
		}
		have = want
		holdsParents(t, h, have, why)
	}
	lead("a tree", `
  a: {user: 7, parent: g, egress: {min: 2Mbit, weight: 3}}
  b: {user: 8, parent: g}
  g: {parent: top, egress: 8Mbit}
  top: {egress: 16Mbit}
`)
	report, err := plane.Report(have)
	if err != nil {
		t.Fatal(err)
	}
	now := map[string]float64{}
	for _, row := range report.Rows {
		for i, c := range (Room{}).Columns().Rows {
			if c.Name == "allowed" {
				now[row.Scope] = row.Values[i].Number
			}
		}
	}
	if now["a"] != 8_000_000 || now["top"] != 16_000_000 {
		t.Errorf("before any traffic: %v", now)
	}
	// The tree is turned over while it is in force, and then taken apart.
	lead("another tree", `
  a: {user: 7, parent: b, egress: 1Mbit}
  b: {user: 8, parent: top}
  g: {user: 9, parent: a, egress: 500kbit}
  top: {egress: 16Mbit}
`)
	lead("no tree", `
  a: {user: 7, egress: 1Mbit}
  g: {user: 9, egress: 500kbit}
`)
}

// holdsParents compares the data plane's tree with the state.
func holdsParents(t *testing.T, h room.Host, have room.State, why string) {
	t.Helper()
	opened, err := LoadPinned(h.Pins)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = opened.Close() }()
	names := map[int]string{}
	for _, b := range have.Scopes {
		names[b.Index] = b.Name
	}
	for _, b := range have.Scopes {
		parent, there, err := opened.Parent(b.Index)
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		if there {
			got = names[parent]
		}
		if got != b.Parent {
			t.Errorf("%s: scope %s stands below %q, want %q", why, b.Name, got, b.Parent)
		}
	}
}

// A data plane that a crash has left attached and empty is filled, though what is in force and what
// is wanted are the same.
func TestADataPlaneThatWasNeverFilledIsFilled(t *testing.T) {
	h := spineHost(t)
	if err := os.Mkdir(filepath.Join(h.CgroupRoot, "a"), 0o755); err != nil {
		t.Fatal(err)
	}
	plane := &hostPlane{h}
	want := bound(t, h, map[string]int{}, "  a: {cgroup: /a, egress: 1Mbit}\n")
	// As Apply begins, and is then cut off.
	empty, _, err := plane.open()
	if err != nil {
		t.Fatal(err)
	}
	_ = empty.Close()
	if in, err := plane.InPlace(want); err != nil || in {
		t.Errorf("in place: %t, %v", in, err)
	}
	if _, err := plane.Apply(want, want); err != nil {
		t.Fatal(err)
	}
	opened, err := LoadPinned(h.Pins)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = opened.Close() }()
	now, err := opened.State(0, Egress)
	if err != nil || !opened.Active() || now.FairRate == 0 {
		t.Errorf("active %t, state %+v, %v", opened.Active(), now, err)
	}
}
