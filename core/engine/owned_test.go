// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"weir/core/match"
	"weir/kernel/cgroup"
)

// pod makes a cgroup and an owned scope of it.
func pod(t *testing.T, e *Engine, name string) OwnedScope {
	t.Helper()
	group, err := cgroup.Create(e.CgroupRoot, name)
	if err != nil {
		t.Fatal(err)
	}
	id, err := group.ID()
	if err != nil {
		t.Fatal(err)
	}
	s := limited(name, 5e6)
	s.Name = "cni/" + name + "/eth0"
	return OwnedScope{s, Owner{Name: "cni", ID: name, For: "pod " + name, Key: match.OfCgroup(id)}}
}

func scopeStates(t *testing.T, e *Engine) map[string]string {
	t.Helper()
	status, err := e.Status()
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	for _, s := range status.Scopes {
		all[s.Name] = s.State
	}
	return all
}

func wantStates(t *testing.T, e *Engine, when string, want map[string]string) {
	t.Helper()
	got := scopeStates(t, e)
	for name, state := range want {
		if got[name] != state {
			t.Errorf("%s: %s is %q, want %q", when, name, got[name], state)
		}
	}
	if len(got) != len(want) {
		t.Errorf("%s: %v, want %v", when, got, want)
	}
}

func edit(t *testing.T, e *Engine, change func([]OwnedScope) []OwnedScope) {
	t.Helper()
	if _, err := e.EditOwned("cni", change); err != nil {
		t.Fatal(err)
	}
}

// The scopes of a pod live beside a policy, with an own life.
func TestOwnedScopesOutliveThePolicy(t *testing.T) {
	e := setup(t)
	one, two := pod(t, e, "one"), pod(t, e, "two")
	edit(t, e, func([]OwnedScope) []OwnedScope { return []OwnedScope{one} })
	edit(t, e, func(own []OwnedScope) []OwnedScope { return append(own, two) })
	wantStates(t, e, "two pods", map[string]string{one.Name: "enforced", two.Name: "enforced"})

	batch := limited("batch", 9e6)
	if err := os.Mkdir(filepath.Join(e.CgroupRoot, "batch"), 0o755); err != nil {
		t.Fatal(err)
	}
	out, err := e.Apply(of(batch))
	if err != nil {
		t.Fatal(err)
	}
	if len(out.Steps) != 1 {
		t.Errorf("the steps of the policy name other scopes: %+v", out.Steps)
	}
	wantStates(t, e, "beside a policy", map[string]string{"batch": "enforced", one.Name: "enforced", two.Name: "enforced"})

	mine := scope("mine: {cgroup: /one, egress: {rate: 9Mbit, mode: police}}")
	if out, err = e.Apply(of(batch, mine)); err != nil {
		t.Fatal(err)
	}
	if want := "scope mine replaces the limit of pod one, which cni added"; !slices.Contains(out.Notes, want) {
		t.Errorf("notes %q, want %q", out.Notes, want)
	}
	wantStates(t, e, "replaced", map[string]string{"batch": "enforced", "mine": "enforced", one.Name: "replaced by scope mine", two.Name: "enforced"})
	if out, err = e.Apply(of(batch, mine)); err != nil || out.Changed {
		t.Errorf("the same policy again: changed %v, %v", out.Changed, err)
	}
	if released, err := e.Release(); err != nil || !released {
		t.Fatal(released, err)
	}
	wantStates(t, e, "after the release", map[string]string{one.Name: "enforced", two.Name: "enforced"})
	if released, err := e.Release(); err != nil || released {
		t.Errorf("a second release: %v, %v", released, err)
	}
	if err := os.Remove(filepath.Join(e.CgroupRoot, "two")); err != nil {
		t.Fatal(err)
	}
	if _, err := e.Rebind(); err != nil {
		t.Fatal(err)
	}
	wantStates(t, e, "after the end of a pod", map[string]string{one.Name: "enforced"})
	edit(t, e, func(own []OwnedScope) []OwnedScope { return nil })
	if _, err := os.Stat(e.PinDir); !os.IsNotExist(err) {
		t.Errorf("pins are left: %v", err)
	}
	wantStates(t, e, "at the end", map[string]string{})
}

// Another object with the name of a former one is not limited.
func TestAnOwnedScopeEndsWithItsObject(t *testing.T) {
	e := setup(t)
	at := e.CgroupRoot
	one := pod(t, e, "one")
	edit(t, e, func([]OwnedScope) []OwnedScope { return []OwnedScope{one} })
	if err := os.Remove(filepath.Join(at, "one")); err != nil {
		t.Fatal(err)
	}
	if _, err := cgroup.Create(at, "one"); err != nil {
		t.Fatal(err)
	}
	if _, err := e.Rebind(); err != nil {
		t.Fatal(err)
	}
	wantStates(t, e, "another cgroup of the name", map[string]string{})
	if own, err := e.Owned("cni"); err != nil || len(own) != 0 {
		t.Errorf("left: %v, %v", own, err)
	}
}

func TestHostsThatCannotHoldAScopeSaySo(t *testing.T) {
	e := setup(t)
	if err := e.CanHold(limited("absent", 5e6)); err != nil {
		t.Errorf("a scope of a future cgroup: %v", err)
	}
	e.PinDir = t.TempDir() // no BPF file system
	if err := e.CanHold(limited("absent", 5e6)); err == nil {
		t.Error("accepted without a BPF file system")
	}
}
