// SPDX-License-Identifier: Apache-2.0

package modules

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"

	"weir/core/engine"
	"weir/kernel/netns"
	"weir/kernel/probe"
	"weir/kernel/rtnl"
	"weir/kernel/testutil"
)

const (
	cpus   = 128 // of a large machine
	scopes = 10
	most   = 2 << 20 // bytes
)

// memories are policies with their kernel features and their maximum memory in bytes.
var memories = []struct {
	name, section string
	scope         string            // keys of each scope
	items         map[string]string // keys of each item, by section
	need          func() error
	most          int
}{
	{name: "policers", scope: "user: %[1]d, egress: 10Mbit, ingress: 10Mbit", most: most},
	{name: "shapers", scope: "interface: d%[1]d, egress: {rate: 10Mbit, mode: shape}, ingress: {rate: 10Mbit, mode: shape}", most: most,
		need: func() error {
			if err := probe.IFB(); err != nil {
				return err
			}
			return probe.Qdisc("htb")
		}},
	{name: "shapers of users", scope: "user: %[1]d, egress: {rate: 10Mbit, mode: shape}", most: most, need: func() error { return probe.Qdisc("fq") }},
	{name: "congestion controls", scope: "user: %[1]d, congestion: reno", most: most},
	{name: "classes", scope: "user: %[1]d, class: lbe", most: most},
	{name: "classes at borders", items: map[string]string{"borders": "d%d: {translate: {lbe: CS1}, to: {192.0.2.0/24: ef}}"}, most: most},
	{name: "classes on links", items: map[string]string{"links": "d%d: {rate: 1Gbit}"}, most: most, need: func() error { return probe.Qdisc("htb") }},
	{name: "IOAM", section: "ioam: {node: 1, namespaces: {123: {}}}", scope: "user: %[1]d, ioam: {namespace: 123, trace: [node]}", most: most},
	{name: "policers, congestion controls and classes", scope: "user: %[1]d, egress: 10Mbit, ingress: 10Mbit, congestion: reno, class: lbe", most: 2 * most},
	{name: "policers and IOAM", section: "ioam: {node: 1, namespaces: {123: {}}}",
		scope: "user: %[1]d, egress: 10Mbit, ingress: 10Mbit, ioam: {namespace: 123, trace: [node]}", most: 2 * most},
}

// Ten scopes or links use at most 2 MiB on a machine with 128 CPUs, in each module.
func TestMemoryFollowsThePolicy(t *testing.T) {
	testutil.NeedRoot(t)
	testutil.Need(t, "jit", probe.JIT())
	for _, c := range memories {
		t.Run(c.name, func(t *testing.T) {
			if c.need != nil {
				testutil.Need(t, c.name, c.need())
			}
			pins := applied(t, policyOf(c.section, c.scope, c.items))
			if octets := memory(t, pins); octets > c.most {
				t.Errorf("the maps take %d octets, want %d at most", octets, c.most)
			} else {
				t.Logf("%d octets", octets)
			}
		})
	}
}

// policyOf returns a policy with the same keys for each scope and for each item of a section.
func policyOf(section, scope string, items map[string]string) string {
	var text strings.Builder
	fmt.Fprintln(&text, "version: 1\n"+section)
	if scope != "" {
		items = map[string]string{"scopes": "s%[1]d: {" + scope + "}"}
	}
	for key, item := range items {
		fmt.Fprintln(&text, key+":")
		for i := range scopes {
			fmt.Fprintf(&text, "  "+item+"\n", i)
		}
	}
	return text.String()
}

// applied applies a policy in a network namespace with devices d0 to d9 and returns its pin folder.
func applied(t *testing.T, text string) string {
	t.Helper()
	here := testutil.Namespace(t, "memory")
	there := testutil.Namespace(t, "behind")
	links, err := rtnl.Open(here)
	if err != nil {
		t.Fatal(err)
	}
	defer links.Close()
	for i := range scopes {
		if err := links.AddVeth(fmt.Sprintf("d%d", i), there, fmt.Sprintf("d%d", i), 0); err != nil {
			t.Fatal(err)
		}
	}
	language, err := Language(All())
	if err != nil {
		t.Fatal(err)
	}
	e := &engine.Engine{Modules: All(), Language: language, StateDir: t.TempDir(), PinDir: filepath.Join(testutil.BPFFS(t), "weir"), CgroupRoot: testutil.Cgroup(t).Path,
		Sockets: func(func(*netns.Namespace) error) error { return nil }}
	p, err := language.Parse("policy.yaml", []byte(text))
	if err == nil {
		err = here.Do(func() error { _, err := e.Apply(p); return err })
	}
	t.Cleanup(func() {
		if err := here.Do(func() error { _, err := e.Release(); return err }); err != nil {
			t.Error(err)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	return e.PinDir
}

// memory returns the bytes of the pinned maps and of the maps of pinned programs.
func memory(t *testing.T, pins string) (sum int) {
	t.Helper()
	seen := map[ebpf.MapID]bool{}
	add := func(name string, id ebpf.MapID) {
		if seen[id] {
			return
		}
		seen[id] = true
		m, err := ebpf.NewMapFromID(id)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = m.Close() }()
		octets := testutil.MapMemory(t, m, cpus)
		t.Logf("%s: %d octets (%s, %d)", name, octets, m.Type(), m.MaxEntries())
		sum += octets
	}
	err := filepath.WalkDir(pins, func(path string, entry fs.DirEntry, err error) error {
		if path == pins && errors.Is(err, fs.ErrNotExist) {
			return nil // classes on links pin nothing
		}
		if err == nil && !entry.IsDir() {
			for _, id := range mapsOf(t, path) {
				add(strings.TrimPrefix(path, pins+"/"), id)
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return sum
}

// mapsOf returns the ids of a pin's maps: of a pinned map, a program, or the program of a link.
func mapsOf(t *testing.T, pin string) []ebpf.MapID {
	t.Helper()
	if m, err := ebpf.LoadPinnedMap(pin, &ebpf.LoadPinOptions{ReadOnly: true}); err == nil {
		defer func() { _ = m.Close() }()
		info, err := m.Info()
		if err != nil {
			t.Fatal(err)
		}
		id, _ := info.ID()
		return []ebpf.MapID{id}
	}
	program, err := ebpf.LoadPinnedProgram(pin, nil)
	if err != nil {
		attached, err := link.LoadPinnedLink(pin, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = attached.Close() }()
		info, err := attached.Info()
		if err != nil {
			t.Fatal(err)
		}
		if program, err = ebpf.NewProgramFromID(info.Program); err != nil {
			t.Fatal(err)
		}
	}
	defer func() { _ = program.Close() }()
	info, err := program.Info()
	if err != nil {
		t.Fatal(err)
	}
	ids, _ := info.MapIDs()
	return ids
}
