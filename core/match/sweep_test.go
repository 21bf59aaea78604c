// SPDX-License-Identifier: Apache-2.0

package match

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/cilium/ebpf"

	"weir/kernel/cgroup"
	"weir/kernel/testutil"
)

// A user who creates and removes the cgroup of a scope without end does not fill the map, and the
// scope applies to him as soon as he stops.
func TestAStormOfCgroupsFillsNoMap(t *testing.T) {
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
	storm, calm := cgroup.Cgroup{Path: filepath.Join(group.Path, "storm")}, cgroup.Cgroup{Path: filepath.Join(group.Path, "calm")}
	if err := os.Mkdir(calm.Path, 0o755); err != nil {
		t.Fatal(err)
	}
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			select {
			case <-stop:
				return
			default:
				_ = os.Mkdir(storm.Path, 0o755)
				_ = os.Remove(storm.Path)
			}
		}
	}()
	maps := Maps{Program: ebpf.CGroupSKB, Entries: map[string]**ebpf.Map{"scope_cgroups": &cgroups}}
	had := Assignments{}
	look := func() { // as a plane's Apply does
		t.Helper()
		now, places := Assignments{}, map[string]Place{}
		for scope, group := range []cgroup.Cgroup{storm, calm} {
			id, err := group.ID()
			if err == nil {
				now[OfCgroup(id)] = scope
			}
			places[cgroup.Below(group.Path)] = Place{scope, id}
		}
		if err := Sweep(dir, cgroups, had, now); err != nil {
			t.Fatal(err)
		}
		if _, err := maps.Reassign(had, now); err != nil {
			t.Fatal(err)
		}
		if err := Rebind(dir, cgroups, places); err != nil {
			t.Fatal(err)
		}
		had = now
	}
	for range 30 {
		look()
	}
	close(stop)
	<-stopped
	if err := os.Mkdir(storm.Path, 0o755); err != nil {
		t.Fatal(err)
	}
	for scope, group := range []cgroup.Cgroup{storm, calm} {
		id, err := group.ID()
		if err != nil {
			t.Fatal(err)
		}
		if holds, err := Holds(cgroups, OfCgroup(id), scope); err != nil || !holds {
			t.Errorf("%s: holds %t, %v", group.Path, holds, err)
		}
	}
	look()
	n := 0
	var id uint64
	var scope uint32
	for entries := cgroups.Iterate(); entries.Next(&id, &scope); n++ {
	}
	if n != 2 {
		t.Errorf("%d cgroups in the map, of two scopes", n)
	}
}
