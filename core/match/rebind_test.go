// SPDX-License-Identifier: Apache-2.0

package match

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cilium/ebpf"

	"weir/kernel/cgroup"
	"weir/kernel/testutil"
)

// A new cgroup at a scope's path is bound at once and replaces the former one; other cgroups are
// ignored. The program stays active after the end of its process until it is removed.
func TestCgroupsAreBoundWhenTheyAreMade(t *testing.T) {
	group := testutil.Cgroup(t)
	testutil.Need(t, "tracing", CanRebind())
	dir := filepath.Join(testutil.BPFFS(t), "pins")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	cgroups, err := ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.Hash, KeySize: 8, ValueSize: 4, MaxEntries: 4})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = cgroups.Close() }()
	create := func(path string) uint64 {
		t.Helper()
		path = filepath.Join(group.Path, path)
		if err := os.MkdirAll(path, 0o755); err != nil {
			t.Fatal(err)
		}
		id, err := cgroup.Cgroup{Path: path}.ID()
		if err != nil {
			t.Fatal(err)
		}
		return id
	}
	remove := func(path string) {
		t.Helper()
		if err := os.Remove(filepath.Join(group.Path, path)); err != nil {
			t.Fatal(err)
		}
	}
	want := func(label string, all map[uint64]uint32) {
		t.Helper()
		var id uint64
		var scope uint32
		n := 0
		for entries := cgroups.Iterate(); entries.Next(&id, &scope); n++ {
			if is, there := all[id]; !there || is != scope {
				t.Errorf("%s: cgroup %d has scope %d; want %v", label, id, scope, all)
			}
		}
		if n != len(all) {
			t.Errorf("%s: %d cgroups have scopes, want %v", label, n, all)
		}
	}
	below := func(path string) string { return cgroup.Below(filepath.Join(group.Path, path)) }
	first := create("a")
	if err := cgroups.Put(first, uint32(3)); err != nil {
		t.Fatal(err)
	}
	long := strings.Repeat("l", MaxPath-len(below("")))
	places := map[string]Place{below("a"): {3, first}, below("deep/b"): {4, 0}, below("/" + long): {5, 0}, below("/" + long + "l"): {6, 0}}
	if err := Rebind(dir, cgroups, places); err != nil {
		t.Fatal(err)
	}
	want("before", map[uint64]uint32{first: 3})
	remove("a")
	second := create("a")
	want("made again", map[uint64]uint32{second: 3})
	b := create("deep/b")
	create("b")
	create("deep/a")
	want("another for the first time, and some of its name elsewhere", map[uint64]uint32{second: 3, b: 4})
	create(long + "l")
	want("too long", map[uint64]uint32{second: 3, b: 4})
	if err := Rebind(dir, cgroups, map[string]Place{below("a"): {7, second}}); err != nil {
		t.Fatal(err)
	}
	remove("a")
	remove("deep/b")
	third := create("a")
	create("deep/b")
	want("asked anew", map[uint64]uint32{third: 7, b: 4})
	if err := Rebind(dir, cgroups, nil); err != nil {
		t.Fatal(err)
	}
	remove("a")
	create("a")
	want("taken back", map[uint64]uint32{third: 7, b: 4}) // removed cgroups stay until the next resync
	if _, err := os.Stat(filepath.Join(dir, RebindPin)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("its pin is left: %v", err)
	}
}
