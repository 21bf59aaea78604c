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

// A file that a crash left in the folder of network namespaces is not a namespace and is skipped.
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

// The wait for a held lock is bounded. The advice is a command that shows its holder.
func TestALockThatIsHeldIsAnError(t *testing.T) {
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

// Other users cannot open the lock file, so they cannot lock out the controller.
func TestTheControllersLockIsItsOwn(t *testing.T) {
	dir := t.TempDir()
	testutil.Write(t, filepath.Join(dir, leaseLock), "")
	if err := os.Chmod(filepath.Join(dir, leaseLock), 0o644); err != nil { // as older versions left it
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

// A user who creates the pin folder first could move pins out of it, so apply rejects such a
// folder.
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

// Apply replaces module folders that another user created in the pin folder. Through an open handle
// of such a folder the user could move pins away.
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
		t.Errorf("its former content: %v", err)
	}
}
