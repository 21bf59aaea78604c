// SPDX-License-Identifier: Apache-2.0

package rooms

import (
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cilium/ebpf"

	"weir/internal/daemon"
	"weir/internal/kernel/netns"
	"weir/internal/kernel/probe"
	"weir/internal/testutil"
)

// processors are those of a large machine.
const processors = 128

// Ten scopes with limits, a congestion control and a class take 2 MiB at most on a machine of 128
// processors, and with traces of IOAM 1.6 MiB more, 0.9 of which its processors work with.
func TestMemoryFollowsThePolicy(t *testing.T) {
	testutil.NeedRoot(t)
	testutil.Need(t, "jit", probe.JIT())
	here := testutil.Namespace(t, "memory")
	language, err := Language(All())
	if err != nil {
		t.Fatal(err)
	}
	e := &daemon.Engine{Rooms: All(), Language: language, StateDir: t.TempDir(), PinDir: filepath.Join(testutil.BPFFS(t), "weir"), CgroupRoot: testutil.Cgroup(t).Path,
		Sockets: func(func(*netns.Namespace) error) error { return nil }}
	var text strings.Builder
	text.WriteString("version: 1\nioam: {node: 1, namespaces: {123: {}}}\nscopes:\n")
	for i := range 10 {
		fmt.Fprintf(&text, "  s%d: {user: %d, egress: 10Mbit, ingress: 10Mbit, congestion: reno, class: lbe, ioam: {namespace: 123, trace: [node]}}\n", i, 1000+i)
	}
	p, err := language.Parse("policy.yaml", []byte(text.String()))
	if err == nil {
		err = here.Do(func() error { _, err := e.Apply(p); return err })
	}
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = here.Do(func() error { _, err := e.Release(); return err }) }()
	seen, sums := map[ebpf.MapID]bool{}, map[string]int{}
	_ = filepath.WalkDir(e.PinDir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		m, err := ebpf.LoadPinnedMap(path, &ebpf.LoadPinOptions{ReadOnly: true})
		if err != nil {
			return nil // a program or a link
		}
		defer func() { _ = m.Close() }()
		info, err := m.Info()
		if err != nil {
			t.Fatal(err)
		}
		id, _ := info.ID()
		if room, _, _ := strings.Cut(strings.TrimPrefix(path, e.PinDir+"/"), "/"); !seen[id] {
			seen[id] = true
			t.Logf("%s: %d octets (%s, %d)", strings.TrimPrefix(path, e.PinDir), testutil.MapMemory(t, m, processors), m.Type(), m.MaxEntries())
			sums[room] += testutil.MapMemory(t, m, processors)
		}
		return nil
	})
	all := 0
	for room, octets := range sums {
		t.Logf("%s: %d octets", room, octets)
		if room != "ioam" {
			all += octets
		}
	}
	if most := 16 << 20 / 10; all > 2<<20 || sums["ioam"] > most {
		t.Errorf("IOAM's maps take %d octets, want %d at most, and all others %d, want %d at most", sums["ioam"], most, all, 2<<20)
	}
}
