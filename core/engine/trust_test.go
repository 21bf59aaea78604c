// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"weir/internal/fault"
	"weir/kernel/netns"
	"weir/kernel/testutil"
)

// What a crash has left in the folder of network namespaces is not one, and is passed over.
func TestALeftoverNameIsNoNamespace(t *testing.T) {
	stale := filepath.Join(t.TempDir(), "stale")
	testutil.Write(t, stale, "")
	if _, err := netns.OpenPath(stale); !errors.Is(err, netns.ErrNotNamespace) {
		t.Errorf("a plain file: %v", err)
	}
	fifo := filepath.Join(t.TempDir(), "fifo")
	if err := unix.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := netns.OpenPath(fifo); !errors.Is(err, netns.ErrNotNamespace) {
		t.Errorf("a FIFO: %v", err)
	}
}

// Who holds the lock is named rather than waited for without end.
func TestALockThatIsHeldIsNamed(t *testing.T) {
	e := setup(t)
	e.LockWait = time.Millisecond
	s, err := e.openStore()
	if err != nil {
		t.Fatal(err)
	}
	defer s.close()
	if _, err := e.Apply(of(limited("a", 1e6))); fault.Of(err) != fault.Failed || !strings.Contains(fault.Advice(err), "fuser") {
		t.Errorf("%v; try %q", err, fault.Advice(err))
	}
}

// Another user cannot lock the controller out, since the file is not his to read.
func TestTheControllersLockIsItsOwn(t *testing.T) {
	dir := t.TempDir()
	testutil.Write(t, filepath.Join(dir, leaseLock), "")
	if err := os.Chmod(filepath.Join(dir, leaseLock), 0o644); err != nil { // as versions before have left it
		t.Fatal(err)
	}
	p, err := AcquireLease(dir, "policy.yaml")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = p.Release() }()
	if info, err := os.Stat(filepath.Join(dir, leaseLock)); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
}

// A user who makes the folder of the pins first could move them away: nothing is pinned there.
func TestPinsAreNotPutWhereOthersMayMoveThem(t *testing.T) {
	testutil.NeedRoot(t)
	e := setup(t)
	testutil.Mkdir(t, e.PinDir)
	for _, foreign := range []func() error{
		func() error { return os.Chown(e.PinDir, 4711, 4711) },
		func() error { return errors.Join(os.Chown(e.PinDir, 0, 0), os.Chmod(e.PinDir, 0o777)) },
	} {
		if err := foreign(); err != nil {
			t.Fatal(err)
		}
		if _, err := e.Apply(of(limited("a", 1e6))); err == nil || !strings.Contains(fault.Advice(err), "rm -r "+e.PinDir) {
			t.Errorf("%v; try %q", err, fault.Advice(err))
		}
		if status, err := e.Status(); err != nil || status.Interrupted || len(status.Scopes) > 0 {
			t.Errorf("begun: %+v, %v", status, err)
		}
	}
	if err := os.Chmod(e.PinDir, 0o700); err != nil {
		t.Fatal(err)
	}
	apply(t, e, limited("a", 1e6))
}

// What a stranger has made in the folder of pins before it was root's is made anew: he could move
// away what is pinned in it, from a folder that he keeps open.
func TestForeignModuleFoldersAreReplaced(t *testing.T) {
	testutil.NeedRoot(t)
	e := setup(t)
	pins := limitPins(e)
	if err := errors.Join(os.MkdirAll(filepath.Join(pins, "his"), 0o700), os.Chown(pins, 4711, 4711), os.Chmod(pins, 0o777)); err != nil {
		t.Fatal(err)
	}
	before, err := os.Stat(pins)
	if err != nil {
		t.Fatal(err)
	}
	apply(t, e, limited("a", 1e6))
	now, err := os.Stat(pins)
	if err != nil || os.SameFile(before, now) || now.Mode().Perm() != 0o700 || now.Sys().(*syscall.Stat_t).Uid != uint32(os.Geteuid()) {
		t.Errorf("%v, %v; the same as before: %t", now, err, os.SameFile(before, now))
	}
	if _, err := os.Stat(filepath.Join(pins, "his")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("what was in it: %v", err)
	}
}
