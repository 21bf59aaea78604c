// SPDX-License-Identifier: Apache-2.0

package testutil

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"weir/kernel/cgroup"
	"weir/kernel/netns"
	"weir/kernel/rtnl"
	"weir/kernel/tc"
)

// lasting is the minimum duration of a difference that counts: longer than the objects of
// concurrent tests.
const lasting = time.Minute

// Snapshot records the kinds of objects that Weir could leave on the host: pinned namespaces,
// devices, their qdiscs and XDP programs, BPF pins, cgroups of labs and commands, and entries of
// /run/weir. When the test ends all must be as before, except for other programs' objects. The
// kernel removes namespaces in the background, so only lasting differences count.
func Snapshot(t testing.TB) {
	t.Helper()
	NeedRoot(t)
	before := inventory(t)
	t.Cleanup(func() {
		for _, line := range lasts(lasting, func() []string { return difference(before, inventory(t)) }) {
			t.Errorf("the test left the host changed: %s", line)
		}
	})
}

// lasts returns the differences that are present at every reading for the given time.
func lasts(long time.Duration, look func() []string) []string {
	changed := look()
	for deadline := time.Now().Add(long); len(changed) > 0 && time.Now().Before(deadline); {
		<-time.After(min(100*time.Millisecond, long))
		now := look()
		changed = slices.DeleteFunc(changed, func(line string) bool { return !slices.Contains(now, line) })
	}
	return changed
}

// others reports whether an item belongs to a lab or a command from before the test: its owner may
// end it at any time. weir prove names the device of its lab weir and the lab's ID.
func others(item string) bool {
	return strings.HasPrefix(item, "namespace weir-") || strings.HasPrefix(item, "cgroup weir-") || strings.HasPrefix(item, "file "+labs) ||
		strings.HasPrefix(item, "device weir") || strings.HasPrefix(item, "qdisc ") && strings.Contains(item, " of weir")
}

// difference lists the items in only one of two sorted inventories, except those of other programs.
func difference(before, after []string) (changed []string) {
	for _, item := range after {
		if _, found := slices.BinarySearch(before, item); !found && !foreign(labs, item) {
			changed = append(changed, "new: "+item)
		}
	}
	for _, item := range before {
		if _, found := slices.BinarySearch(after, item); !found && !others(item) {
			changed = append(changed, "gone: "+item)
		}
	}
	return changed
}

// inventory lists the host's objects, sorted.
func inventory(t testing.TB) []string {
	t.Helper()
	names, err := netns.List("")
	if err != nil {
		t.Fatal(err)
	}
	var items []string
	own := fmt.Sprintf("%s%d-", ownPrefix, os.Getpid())
	for _, name := range names {
		if strings.HasPrefix(name, ownPrefix) && !strings.HasPrefix(name, own) {
			continue // of a concurrent test process, which checks for itself
		}
		items = append(items, "namespace "+name)
	}
	devices, err := deviceItems()
	if err != nil {
		t.Fatal(err)
	}
	items = append(items, devices...)
	for _, root := range []string{"/sys/fs/bpf", "/run/weir"} {
		_ = filepath.WalkDir(root, func(path string, _ fs.DirEntry, err error) error {
			if err == nil && path != root {
				items = append(items, "file "+path)
			}
			return nil // a missing folder, or one removed during the reading, holds nothing
		})
	}
	items = append(items, cgroupItems()...)
	slices.Sort(items)
	return items
}

// cgroupItems lists the cgroups that Weir makes for a lab or a command. Those of a policy belong to
// the user.
func cgroupItems() (items []string) {
	root, err := cgroup.Root()
	if err != nil {
		return nil // no hierarchy, no cgroups
	}
	for _, pattern := range []string{"weir-lab-*", "weir-run-*"} {
		found, _ := filepath.Glob(filepath.Join(root, pattern)) // the pattern is well-formed
		for _, path := range found {
			items = append(items, "cgroup "+filepath.Base(path))
		}
	}
	return items
}

func deviceItems() ([]string, error) {
	links, err := rtnl.Open(nil)
	if err != nil {
		return nil, err
	}
	defer links.Close()
	queues, err := tc.Open(nil)
	if err != nil {
		return nil, err
	}
	defer queues.Close()
	devices, err := links.Devices()
	if err != nil {
		return nil, err
	}
	var items []string
	for _, device := range devices {
		items = append(items, fmt.Sprintf("device %s up=%t xdp=%d", device.Name, device.Up, device.XDP))
		qdiscs, err := queues.List(device.Name)
		if err != nil {
			return nil, err
		}
		for _, qdisc := range qdiscs {
			items = append(items, fmt.Sprintf("qdisc %s of %s at %s", qdisc.Kind, device.Name, qdisc.Parent))
		}
	}
	return items, nil
}
