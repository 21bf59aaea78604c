package daemon

import (
	"testing"

	"weir/limit"
	"weir/policy"
)

func TestApplyArrangesScopesBelowTheirParents(t *testing.T) {
	e := setup(t)
	parse := func(text string) []policy.Scope {
		t.Helper()
		p, err := policy.Parse("p.yaml", []byte("version: 1\nscopes:\n"+text))
		if err != nil {
			t.Fatal(err)
		}
		return p.Scopes
	}
	look := func(scopes []policy.Scope, why string) map[string]limit.State {
		t.Helper()
		if _, err := e.Apply(scopes); err != nil {
			t.Fatalf("%s: %v", why, err)
		}
		holdsParents(t, e, why)
		status, err := e.Status()
		if err != nil {
			t.Fatal(err)
		}
		now := map[string]limit.State{}
		for _, s := range status.Scopes {
			if s.State != "enforced" {
				t.Errorf("%s: scope %s is %s", why, s.Scope.Name, s.State)
			}
			now[s.Scope.Name] = *s.EgressNow
		}
		return now
	}
	now := look(parse(`
  a: {user: 7, parent: g, egress: {min: 2Mbit, weight: 3}}
  b: {user: 8, parent: g}
  g: {parent: top, egress: 8Mbit}
  top: {egress: 16Mbit}
`), "a tree")
	if now["a"].Allowed != 8_000_000 || now["top"].Allowed != 16_000_000 {
		t.Errorf("before any traffic: %+v", now)
	}
	// The tree is turned over while it is in force, and then taken apart.
	look(parse(`
  a: {user: 7, parent: b, egress: 1Mbit}
  b: {user: 8, parent: top}
  g: {user: 9, parent: a, egress: 500kbit}
  top: {egress: 16Mbit}
`), "another tree")
	look(parse(`
  a: {user: 7, egress: 1Mbit}
  g: {user: 9, egress: 500kbit}
`), "no tree")
	out, err := e.Apply(parse("  a: {user: 7, egress: 1Mbit}\n  g: {user: 9, egress: 500kbit}\n"))
	if err != nil || out.Changed {
		t.Errorf("the same again: %+v, %v", out, err)
	}
}

// holdsParents compares the data plane's tree with the state.
func holdsParents(t *testing.T, e *Engine, why string) {
	t.Helper()
	plane, err := limit.LoadPinned(e.PinDir)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = plane.Close() }()
	have, err := (&store{dir: e.StateDir}).read(current)
	if err != nil {
		t.Fatal(err)
	}
	names := map[int]string{}
	for _, h := range have.Held {
		names[h.Index] = h.Scope.Name
	}
	for _, h := range have.Held {
		parent, there, err := plane.Parent(h.Index)
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		if there {
			got = names[parent]
		}
		if got != h.Scope.Parent {
			t.Errorf("%s: scope %s stands below %q, want %q", why, h.Scope.Name, got, h.Scope.Parent)
		}
	}
}
