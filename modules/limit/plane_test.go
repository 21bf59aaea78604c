// SPDX-License-Identifier: Apache-2.0

package limit

import (
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cilium/ebpf"

	"weir/core/module"
	"weir/core/selector"
	"weir/internal/direction"
	"weir/kernel/cgroup"
	"weir/kernel/clock"
	"weir/kernel/netns"
	"weir/kernel/probe"
	"weir/kernel/testutil"
	"weir/modules/limit/police"
)

// coreHost is a host of the test, with namespaces left alone.
func coreHost(t *testing.T) module.Host {
	t.Helper()
	return module.Host{Pins: filepath.Join(testutil.BPFFS(t), "limit"), CgroupRoot: testutil.Cgroup(t).Path,
		Namespaces: func(func(*netns.Namespace) error) error { return nil }}
}

// bound binds the scopes of a policy, numbered as in index; new ones get the next numbers.
func bound(t *testing.T, h module.Host, index map[string]int, text string) (all module.State) {
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
		all.Scopes = append(all.Scopes, module.Bound{Scope: s, Index: index[s.Name], Binding: binding, Treatment: s.Treatments[moduleName]})
	}
	return all
}

func TestApplyArrangesScopesBelowTheirParents(t *testing.T) {
	h, index := coreHost(t), map[string]int{}
	plane := Module{}.Plane(h)
	have := module.State{}
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
		for i, c := range (Module{}).Columns().Rows {
			if c.Name == "allowed" {
				now[row.Scope] = row.Values[i].Number
			}
		}
	}
	if now["a"] != 8_000_000 || now["top"] != 16_000_000 {
		t.Errorf("before any traffic: %v", now)
	}
	// The tree is inverted while it is active, then dissolved.
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

// holdsParents compares the tree of the data plane with the state.
func holdsParents(t *testing.T, h module.Host, have module.State, why string) {
	t.Helper()
	opened, err := police.LoadPinned(h.Pins)
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

// An attached but empty data plane, left by a crash, is filled even if the wanted state is the
// same.
func TestADataPlaneThatWasNeverFilledIsFilled(t *testing.T) {
	h := coreHost(t)
	if err := os.Mkdir(filepath.Join(h.CgroupRoot, "a"), 0o755); err != nil {
		t.Fatal(err)
	}
	plane := &policer{h}
	want := bound(t, h, map[string]int{}, "  a: {cgroup: /a, egress: 1Mbit}\n")
	// As Apply begins, and is then cut off.
	empty, _, err := plane.open(module.CapacityFor())
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
	opened, err := police.LoadPinned(h.Pins)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = opened.Close() }()
	now, err := opened.State(0, Egress)
	if err != nil || !opened.Active() || now.FairRate == 0 {
		t.Errorf("active %t, state %+v, %v", opened.Active(), now, err)
	}
}

// A release after a killed release frees the paced sockets.
func TestSocketsThatAKilledReleaseHasLeftAreSetFree(t *testing.T) {
	h := coreHost(t)
	if err := os.Mkdir(filepath.Join(h.CgroupRoot, "a"), 0o755); err != nil {
		t.Fatal(err)
	}
	client, server, address := path(t)
	h.Namespaces = func(each func(*netns.Namespace) error) error { return each(client) }
	plane, index := &policer{h}, map[string]int{}
	slow, fast := bound(t, h, index, "  a: {cgroup: /a, egress: 10Mbit}\n"), bound(t, h, index, "  a: {cgroup: /a, egress: 1Gbit}\n")
	if _, err := plane.Apply(module.State{}, slow); err != nil {
		t.Fatal(err)
	}
	process, answers := talker(t, cgroup.Cgroup{Path: filepath.Join(h.CgroupRoot, "a")}, client, echo(t, server, address))
	exchange := func() (rate uint32) {
		t.Helper()
		if _, err := fmt.Fprintln(process.In); err != nil || !answers.Scan() {
			t.Fatalf("the talker has ended: %v", err)
		}
		if _, err := fmt.Sscan(answers.Text(), &rate); err != nil {
			t.Fatal(err)
		}
		return rate
	}
	answers.Scan()
	if got := exchange(); got > 10_000_000 {
		testutil.Need(t, "sk_storage-updates", fmt.Errorf("paced at %d octet/s", got))
	}
	if err := police.Detach(h.Pins); err != nil {
		t.Fatal(err)
	}
	if _, err := plane.Apply(slow, fast); err != nil {
		t.Fatal(err)
	}
	if released, err := plane.Release(); err != nil || !released {
		t.Fatalf("released: %t, %v", released, err)
	}
	if got := exchange(); got != 1<<32-1 {
		t.Errorf("the socket is paced at %d octet/s after all limits have ended", got)
	}
}

// A scope with the number of a removed one starts with zero counters, an empty queue and a full
// fair rate; other scopes keep theirs.
func TestANumberThatIsGivenAnewBeginsAnew(t *testing.T) {
	h := coreHost(t)
	plane, have := &policer{h}, module.State{}
	lead := func(second, text string) *police.DataPlane {
		t.Helper()
		want := bound(t, h, map[string]int{"one": 0, second: 1}, "  one: {user: 7, egress: 1Mbit}\n"+text)
		if _, err := plane.Apply(have, want); err != nil {
			t.Fatal(err)
		}
		have = want
		opened, err := police.LoadPinned(h.Pins)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = opened.Close() })
		return opened
	}
	lead("two", "  two: {user: 8, egress: 1Mbit, ingress: 1Mbit}\n")
	fill(t, filepath.Join(h.Pins, "states"), uint64(clock.Now())+uint64(time.Hour))
	fill(t, filepath.Join(h.Pins, "counts"), 5)
	fill(t, filepath.Join(h.Pins, "rtts"), 9)
	lead("two", "")
	opened := lead("fresh", "  fresh: {mark: 9, egress: 2Mbit, ingress: 2Mbit}\n")
	for _, d := range direction.Both {
		for scope, want := range []uint64{5, 0} {
			got, err := opened.Counters(scope, d)
			if err != nil || got.Packets != want || got.RTTSum != want/5*9 {
				t.Errorf("scope %d %s: %d packets, round trips %d us, %v", scope, d, got.Packets, got.RTTSum, err)
			}
		}
		if got, err := opened.State(1, d); err != nil || got.Queue != 0 || got.FairRate != 2_000_000 {
			t.Errorf("the new scope begins with %+v, %v", got, err)
		}
	}
}

// Sockets in at most maxForeign namespaces of other user namespaces are adopted, with a note about
// the others; a release visits all.
func TestFewForeignNamespacesAreVisitedForOpenConnections(t *testing.T) {
	testutil.Need(t, "open-sockets", probe.OpenSockets())
	h, foreign := coreHost(t), testutil.ForeignNamespace(t)
	h.Files, h.Devices = t.TempDir(), filepath.Join(filepath.Dir(h.Pins), "devices")
	const more = 5
	visited := 0
	h.Namespaces = func(each func(*netns.Namespace) error) error {
		for range maxForeign + more {
			visited++
			if err := each(foreign); err != nil {
				return err
			}
		}
		return nil
	}
	plane := Module{}.Plane(h)
	notes, err := plane.Apply(module.State{}, bound(t, h, map[string]int{}, "  a: {user: 7, egress: {rate: 10Mbit, mode: police}}\n"))
	if err != nil || len(notes) != 1 || !strings.Contains(notes[0], fmt.Sprintf(" %d network namespaces", more)) {
		t.Errorf("notes %q, %v", notes, err)
	}
	visited = 0
	if _, err := plane.Release(); err != nil || visited != maxForeign+more {
		t.Errorf("release visited %d, %v", visited, err)
	}
}

// fill sets all 64-bit words of a map's values, on the first CPU.
func fill(t *testing.T, pin string, word uint64) {
	t.Helper()
	m, err := ebpf.LoadPinnedMap(pin, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = m.Close() }()
	value := make([]byte, m.ValueSize())
	for i := 0; i < len(value); i += 8 {
		binary.NativeEndian.PutUint64(value[i:], word)
	}
	for index := range m.MaxEntries() {
		var err error
		if m.Type() == ebpf.PerCPUArray {
			each := make([][]byte, ebpf.MustPossibleCPU())
			for i := range each {
				each[i] = make([]byte, len(value))
			}
			each[0] = value
			err = m.Put(index, each)
		} else {
			err = m.Put(index, value)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}
