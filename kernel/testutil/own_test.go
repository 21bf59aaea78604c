// SPDX-License-Identifier: Apache-2.0

package testutil

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"

	"weir/kernel/cgroup"
	"weir/kernel/netns"
)

// gone reports whether nothing is at a path.
func gone(path string) bool {
	_, err := os.Stat(path)
	return errors.Is(err, os.ErrNotExist)
}

func TestOwnThingsGoWithTheirTest(t *testing.T) {
	var group cgroup.Cgroup
	var pins string
	t.Run("inner", func(t *testing.T) {
		group, pins = Cgroup(t), BPFFS(t)
		if err := os.MkdirAll(filepath.Join(group.Path, "a", "b"), 0o755); err != nil {
			t.Fatal(err)
		}
		var is unix.Statfs_t
		if err := unix.Statfs(pins, &is); err != nil || is.Type != unix.BPF_FS_MAGIC {
			t.Errorf("the file system at %s has the type %#x, %v", pins, is.Type, err)
		}
	})
	if !gone(group.Path) || !gone(pins) {
		t.Errorf("%s has gone: %t; %s: %t", group.Path, gone(group.Path), pins, gone(pins))
	}
}

// misplaced is a test with folders that cannot be mount points.
type misplaced struct {
	testing.TB
	failed bool
}

func (m *misplaced) TempDir() string { return filepath.Join(m.TB.TempDir(), "missing") }

func (m *misplaced) Fatalf(string, ...any) {
	m.failed = true
	runtime.Goexit()
}

func TestNoBPFFileSystemIsAFailure(t *testing.T) {
	NeedRoot(t)
	test, done := &misplaced{TB: t}, make(chan struct{})
	go func() {
		defer close(done)
		BPFFS(test)
		t.Error("went on without a BPF file system")
	}()
	<-done
	if !test.failed {
		t.Error("did not fail")
	}
}

// ownedBy creates a namespace, a cgroup with a descendant, and a BPF file system with the names of
// another process's, and returns their paths.
func ownedBy(t *testing.T, pid int) []string {
	t.Helper()
	root, err := cgroup.Root()
	Need(t, "cgroup v2", err)
	name := fmt.Sprintf("%s%d-left-%d", ownPrefix, pid, os.Getpid())
	group, pins := filepath.Join(root, name), t.TempDir()
	ns, err := netns.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	_ = ns.Close()
	t.Cleanup(func() {
		_ = unix.Unmount(pins, 0) // unless it has been swept
		if err := errors.Join(netns.Remove(name), removeTree(group)); err != nil {
			t.Error(err)
		}
	})
	if err := errors.Join(os.MkdirAll(filepath.Join(group, "inner"), 0o755), unix.Mount(name, pins, "bpf", 0, ""),
		os.Mkdir(filepath.Join(pins, "inner"), 0o755)); err != nil {
		t.Fatal(err)
	}
	return []string{netns.Path(name), filepath.Join(group, "inner"), filepath.Join(pins, "inner")}
}

func TestSweepTakesWhatHasNoOwner(t *testing.T) {
	NeedRoot(t)
	const nobody = 1<<22 + 1 // above the largest PID_MAX_LIMIT of include/linux/threads.h
	stale := ownedBy(t, nobody)
	held := append(ownedBy(t, os.Getpid()), ownedBy(t, os.Getppid())...)
	removed, err := sweep() // it may meet objects that it cannot remove, or another process may have swept first
	for _, path := range stale {
		if !gone(path) {
			t.Errorf("%s is still there: %v", path, err)
		}
	}
	for _, path := range held {
		if gone(path) {
			t.Errorf("%s went while its owner lives; removed %q", path, removed)
		}
	}
}

func TestOnlyANumberTellsAnOwner(t *testing.T) {
	for _, name := range []string{"weirtest-never-made", "weirtest-", "weirtest-4194305", "weirtest--a", "weirtest-4194305x-a", "4194305-a"} {
		if ownerless(name) {
			t.Errorf("%s tells no owner and is taken", name)
		}
	}
}
