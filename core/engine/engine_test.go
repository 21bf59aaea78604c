// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"weir/core/policy"
	"weir/internal/child"
	"weir/internal/fault"
	"weir/internal/units"
	"weir/kernel/cgroup"
	"weir/kernel/netns"
	"weir/kernel/testutil"
	"weir/modules"
)

func TestMain(m *testing.M) {
	child.Main(child.Parts{"apply": applyPart, "lesser": lesserPart})
	os.Exit(m.Run())
}

// setup returns an engine with folders, a BPF file system and a cgroup of the test's own.
func setup(t *testing.T) *Engine {
	t.Helper()
	return engineAt(t.TempDir(), filepath.Join(testutil.BPFFS(t), "weir"), testutil.Cgroup(t).Path)
}

// engineAt returns an engine that changes no open socket of the machine.
func engineAt(state, pins, root string) *Engine {
	return &Engine{Modules: modules.All(), Language: language, StateDir: state, PinDir: pins, CgroupRoot: root,
		Sockets: func(func(*netns.Namespace) error) error { return nil }}
}

// language is the language of all modules of this build.
var language = func() *policy.Language {
	all, err := modules.Language(modules.All())
	if err != nil {
		panic(err)
	}
	return all
}()

// limitPins returns the pin folder of the module limit.
func limitPins(e *Engine) string { return filepath.Join(e.PinDir, "limit") }

// of returns a policy with these scopes.
func of(scopes ...policy.Scope) *policy.Policy { return &policy.Policy{Scopes: scopes} }

// scope parses one scope of a policy file.
func scope(text string) policy.Scope {
	p, err := language.Parse("scope", []byte("version: 1\nscopes:\n  "+text+"\n"))
	if err != nil {
		panic(err)
	}
	return p.Scopes[0]
}

func limited(name string, rate units.BitRate) policy.Scope {
	return scope(fmt.Sprintf("%s: {cgroup: /%s, egress: {rate: %dbit, mode: police}}", name, name, rate))
}

// limitedBoth returns a scope with limits in both directions.
func limitedBoth(name string, egress, ingress units.BitRate) policy.Scope {
	return scope(fmt.Sprintf("%s: {cgroup: /%s, egress: {rate: %dbit, mode: police}, ingress: {rate: %dbit, mode: police}}", name, name, egress, ingress))
}

// apply applies and fails the test on an error.
func apply(t *testing.T, e *Engine, scopes ...policy.Scope) Outcome {
	t.Helper()
	out, err := e.Apply(of(scopes...))
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// states returns the state of each active scope.
func states(t *testing.T, e *Engine) map[string]string {
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

func TestApplyTwiceChangesNothingTheSecondTime(t *testing.T) {
	e := setup(t)
	if err := os.Mkdir(filepath.Join(e.CgroupRoot, "a"), 0o755); err != nil {
		t.Fatal(err)
	}
	if out := apply(t, e, limited("a", 1e6)); !out.Changed {
		t.Error("the first apply says that it changed nothing")
	}
	before := contents(t, e.StateDir)
	if out := apply(t, e, limited("a", 1e6)); out.Changed {
		t.Errorf("the second apply changed something: %+v", out.Steps)
	}
	if diff := cmp.Diff(before, contents(t, e.StateDir)); diff != "" {
		t.Errorf("the second apply wrote (-before +after):\n%s", diff)
	}
	if diff := cmp.Diff(map[string]string{"a": "enforced"}, states(t, e)); diff != "" {
		t.Error(diff)
	}
}

// contents reads every file of a folder.
func contents(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		all[path] = string(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func TestAScopeWhoseCgroupIsMissingWaitsAndTheRestIsEnforced(t *testing.T) {
	e := setup(t)
	if err := os.Mkdir(filepath.Join(e.CgroupRoot, "here"), 0o755); err != nil {
		t.Fatal(err)
	}
	out := apply(t, e, limited("later", 1e6), limited("here", 2e6))
	if len(out.Waiting) != 1 || out.Waiting[0].Scope != "later" {
		t.Errorf("waiting: %+v, want the scope later", out.Waiting)
	}
	path := filepath.Join(e.CgroupRoot, "later")
	want := map[string]string{"later": "waiting: there is no cgroup " + path, "here": "enforced"}
	if diff := cmp.Diff(want, states(t, e)); diff != "" {
		t.Error(diff)
	}
	if err := os.Mkdir(path, 0o755); err != nil {
		t.Fatal(err)
	}
	if out := apply(t, e, limited("later", 1e6), limited("here", 2e6)); !out.Changed || len(out.Waiting) > 0 {
		t.Errorf("after the cgroup came: %+v", out)
	}
}

func TestReleaseLeavesNothing(t *testing.T) {
	e := setup(t)
	apply(t, e, limited("a", 1e6))
	if released, err := e.Release(); err != nil || !released {
		t.Fatalf("released: %t, %v", released, err)
	}
	if _, err := os.Stat(e.PinDir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("pins left: %v", err)
	}
	for path := range contents(t, e.StateDir) {
		if filepath.Base(path) != "lock" {
			t.Errorf("state left: %s", path)
		}
	}
	if released, err := e.Release(); err != nil || released {
		t.Errorf("the second release: %t, %v", released, err)
	}
}

func TestScopesKeepTheirNumbersWhenOthersGo(t *testing.T) {
	e := setup(t)
	apply(t, e, limited("a", 1e6), limited("b", 1e6), limited("c", 1e6))
	apply(t, e, limited("c", 1e6), limited("d", 1e6))
	have, err := e.store().read(current)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]int{}
	for _, h := range have.Scopes {
		got[h.Name] = h.Index
	}
	// d must not reuse b's number and counters. c keeps its number.
	if got["c"] != 2 || got["d"] == 2 {
		t.Errorf("numbers %v, want c to keep 2", got)
	}
}

// Two scopes may match one cgroup, by path and by unit. If one is removed, the other takes effect.
func TestOfTwoScopesForOneCgroupTheOtherStays(t *testing.T) {
	e := setup(t)
	if err := os.Mkdir(filepath.Join(e.CgroupRoot, "a.service"), 0o755); err != nil {
		t.Fatal(err)
	}
	path := limited("a.service", 1e6)
	unit := scope("unit: {unit: a.service, egress: {rate: 2Mbit, mode: police}}")
	for _, gone := range []policy.Scope{path, unit} {
		apply(t, e, path, unit)
		stays := path
		if gone.Name == path.Name {
			stays = unit
		}
		apply(t, e, stays)
		id, err := cgroup.Cgroup{Path: filepath.Join(e.CgroupRoot, "a.service")}.ID()
		if err != nil {
			t.Fatal(err)
		}
		have, err := e.store().read(current)
		if err != nil {
			t.Fatal(err)
		}
		entries, err := ebpf.LoadPinnedMap(filepath.Join(limitPins(e), "cgroups"), nil)
		if err != nil {
			t.Fatal(err)
		}
		var scope uint32
		err = entries.Lookup(id, &scope)
		_ = entries.Close()
		if err != nil || int(scope) != have.Scopes[0].Index {
			t.Errorf("without %s the cgroup has scope %d (%v), want %s, %d", gone.Name, scope, err, stays.Name, have.Scopes[0].Index)
		}
	}
}

// The ingress program is attached and detached with the policies that need it. The other programs
// stay attached.
func TestIngressIsAttachedWhileAPolicyNeedsIt(t *testing.T) {
	e := setup(t)
	testutil.Mkdir(t, e.CgroupRoot, "a")
	both, shadow, other := limitedBoth("a", 1e6, 2e6), limitedBoth("a", 1e6, 2e6), limitedBoth("b", 1e6, 3e6)
	shadow.Shadow = true
	egress, all := [3]int{1, 0, 1}, [3]int{1, 1, 1}
	var first [2]link.ID
	for i, step := range []struct {
		scopes []policy.Scope
		want   [3]int
	}{
		{[]policy.Scope{limited("a", 1e6)}, egress},
		{[]policy.Scope{both}, all},
		{[]policy.Scope{both, other}, all},
		{[]policy.Scope{limited("a", 1e6), other}, all},
		{[]policy.Scope{limited("a", 2e6)}, egress},
		{[]policy.Scope{shadow}, all},
		{[]policy.Scope{both}, all},
	} {
		apply(t, e, step.scopes...)
		if got := testutil.CountPrograms(t, e.CgroupRoot); got != step.want {
			t.Errorf("step %d: programs %d, want %d", i, got, step.want)
		}
		now := [2]link.ID{linkID(t, e, "link-0"), linkID(t, e, "link-1")}
		if i == 0 {
			first = now
		}
		if now != first {
			t.Errorf("step %d: attachments %d, want %d throughout", i, now, first)
		}
	}
}

// linkID returns the id of a pinned attachment, which changes if another one replaces it.
func linkID(t *testing.T, e *Engine, name string) link.ID {
	t.Helper()
	pinned, err := link.LoadPinnedLink(filepath.Join(limitPins(e), name), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = pinned.Close() }()
	info, err := pinned.Info()
	if err != nil {
		t.Fatal(err)
	}
	return info.ID
}

// Without a BPF file system an apply changes nothing and advises to mount one.
func TestApplyWithoutABPFFileSystem(t *testing.T) {
	e := engineAt(t.TempDir(), filepath.Join(t.TempDir(), "weir"), testutil.Cgroup(t).Path)
	_, err := e.Apply(of(limited("a", 1e6)))
	if fault.Of(err) != fault.Testbed || !strings.Contains(fault.Advice(err), "mount -t bpf -o mode=700 bpf /sys/fs/bpf") {
		t.Errorf("%v; try %q", err, fault.Advice(err))
	}
	if status, err := e.Status(); err != nil || status.Interrupted || len(status.Scopes) > 0 || testutil.CountPrograms(t, e.CgroupRoot) != [3]int{} {
		t.Errorf("begun: %+v, %v", status, err)
	}
	e.PinDir = filepath.Join(testutil.BPFFS(t), "weir")
	apply(t, e, limited("a", 1e6))
}

// order is the input of the child process "apply", which applies both policies in turn until it is
// killed.
type order struct {
	State, Pins, Root string
	One, Two          string // policies
}

func applyPart(in io.Reader, out io.Writer) error {
	var o order
	if err := json.NewDecoder(in).Decode(&o); err != nil {
		return err
	}
	e := engineAt(o.State, o.Pins, o.Root)
	for i := 0; ; i++ {
		text := o.One
		if i%2 == 1 {
			text = o.Two
		}
		p, err := language.Parse("policy", []byte(text))
		if err != nil {
			return err
		}
		if _, err := e.Apply(p); err != nil {
			return err
		}
		if i == 0 {
			fmt.Fprintln(out, "first")
		}
		if i%7 == 6 {
			if _, err := e.Release(); err != nil {
				return err
			}
		}
	}
}

// After a kill at any moment the next apply completes, and the state is one of the two policies.
func TestKilledAnywhereTheNextApplyCompletes(t *testing.T) {
	e := setup(t)
	random := testutil.Rand(t)
	const one = "version: 1\nscopes:\n  a: {cgroup: /a, egress: {rate: 1Mbit, mode: police}}\n  b: {cgroup: /b, egress: {rate: 2Mbit, mode: police}}\n"
	const two = "version: 1\nscopes:\n  b: {cgroup: /b, egress: {rate: 3Mbit, mode: police}}\n  c: {cgroup: /c, egress: {rate: 4Mbit, mode: police}, ingress: {rate: 5Mbit, mode: police}}\n"
	for range 12 {
		process, err := child.Start(context.Background(), "apply", os.Stderr)
		if err != nil {
			t.Fatal(err)
		}
		if err := json.NewEncoder(process.In).Encode(order{e.StateDir, e.PinDir, e.CgroupRoot, one, two}); err != nil {
			t.Fatal(err)
		}
		if _, err := process.Out.Read(make([]byte, 6)); err != nil {
			t.Fatal(err)
		}
		// A random moment.
		<-time.After(time.Duration(random.IntN(60_000)) * time.Microsecond)
		if err := unix.Kill(process.PID(), unix.SIGKILL); err != nil {
			t.Fatal(err)
		}
		if err := process.Wait(); err == nil {
			t.Fatal("the child has ended by itself")
		}
		apply(t, e, parse(t, one).Scopes...)
		status, err := e.Status()
		if err != nil {
			t.Fatal(err)
		}
		if !status.Enforced || status.Interrupted || len(status.Scopes) != 2 {
			t.Fatalf("after a kill and an apply: %+v", status)
		}
		attaches(t, e, [3]int{1, 0, 1})
	}
	if _, err := e.Release(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(e.PinDir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("pins left: %v", err)
	}
}

func TestAnEmptyPolicyLoadsNothing(t *testing.T) {
	e := setup(t)
	p, err := language.Parse("policy", []byte("version: 1\nscopes: {}\n"))
	if err != nil {
		t.Fatal(err)
	}
	if out, err := e.Apply(p); err != nil || len(out.Steps)+len(out.Waiting)+len(out.Notes) > 0 {
		t.Errorf("it changes something: %+v (%v)", out, err)
	}
	if entries, err := os.ReadDir(e.PinDir); err == nil && len(entries) > 0 {
		t.Errorf("it pins %v", entries)
	}
	if released, err := e.Release(); err != nil || released {
		t.Errorf("there was something to release: %t (%v)", released, err)
	}
}
