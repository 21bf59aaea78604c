// SPDX-License-Identifier: Apache-2.0

package testutil

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"weir/kernel/cgroup"
	"weir/kernel/netns"
)

// ownPrefix begins the names of all objects of test processes. The process id and a hyphen follow,
// by which [NeedRoot] finds objects without an owner.
const ownPrefix = "weirtest-"

// ownName returns a name for an object of one test.
func ownName(label string) string {
	return fmt.Sprintf("%s%d-%s-%08x", ownPrefix, os.Getpid(), label, rand.Uint32())
}

// Namespace creates a network namespace for this test alone and removes it at the end.
func Namespace(t testing.TB, label string) *netns.Namespace {
	t.Helper()
	NeedRoot(t)
	name := ownName(label)
	ns, err := netns.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = ns.Close()
		if err := netns.Remove(name); err != nil {
			t.Error(err)
		}
	})
	return ns
}

// Cgroup creates a cgroup below the root of the v2 hierarchy for this test alone. At the end it is
// removed with its descendants, after their last process.
func Cgroup(t testing.TB) cgroup.Cgroup {
	t.Helper()
	NeedRoot(t)
	root, err := cgroup.Root()
	Need(t, "cgroup v2", err)
	group, err := cgroup.Create(root, ownName("group"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		Eventually(t, 10*time.Second, "the removal of the test's cgroups", func() bool { return removeTree(group.Path) == nil })
	})
	return group
}

// removeTree removes a cgroup and its descendants. The kernel keeps those with a process.
func removeTree(path string) error {
	inner, err := filepath.Glob(filepath.Join(path, "*", "cgroup.procs"))
	errs := []error{err}
	for _, procs := range inner {
		errs = append(errs, removeTree(filepath.Dir(procs)))
	}
	return errors.Join(append(errs, cgroup.Cgroup{Path: path}.Remove())...)
}

// BPFFS mounts a BPF file system for this test alone and returns its folder. It fails the test
// otherwise, so that a test never pins to the host's.
func BPFFS(t testing.TB) string {
	t.Helper()
	NeedRoot(t)
	dir := t.TempDir()
	if err := unix.Mount(ownName("pins"), dir, "bpf", 0, ""); err != nil {
		t.Fatalf("mount a BPF file system: %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, 0); err != nil {
			t.Errorf("unmount the test's BPF file system: %v", err)
		}
	})
	return dir
}
