// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"weir/core/policy"
	"weir/internal/fault"
	"weir/kernel/netns"
	"weir/kernel/testutil"
)

// What a crash has left in the folder of network namespaces is not one, and is passed over.
func TestALeftoverNameIsNoNamespace(t *testing.T) {
	stale := filepath.Join(t.TempDir(), "stale")
	write(t, stale, "")
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

// A change that failed for a reason that passes is made once it has passed, though nobody touches
// the file again.
func TestAChangeThatFailedIsTriedAgain(t *testing.T) {
	e := setup(t)
	mkdir(t, e.CgroupRoot, "a")
	s := service(t, e, oneScope)
	s.Look = 20 * time.Millisecond
	start(t, s)
	lock, err := os.OpenFile(filepath.Join(e.StateDir, "lock"), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = lock.Close() }()
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	write(t, s.Policy, strings.Replace(oneScope, "1Mbit", "7Mbit", 1))
	testutil.Eventually(t, patience, "the report", func() bool { return strings.Contains(trouble(t, e), "another process has held") })
	testutil.Eventually(t, patience, "failing health", func() bool { return s.health.fails(applying) })
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_UN); err != nil {
		t.Fatal(err)
	}
	testutil.Eventually(t, patience, "the change", func() bool { return egress(t, e) == 7e6 && trouble(t, e) == "" })
	testutil.Eventually(t, patience, "good health", func() bool { return !s.health.fails(applying) && !s.health.fails(binding) })
	write(t, s.Policy, "a mistake")
	testutil.Eventually(t, patience, "the report of the mistake", func() bool { return trouble(t, e) != "" })
	if s.health.fails(applying) {
		t.Error("a mistake in the file, which is not the daemon's to mend, is ill health")
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
	write(t, filepath.Join(dir, presenceLock), "")
	if err := os.Chmod(filepath.Join(dir, presenceLock), 0o644); err != nil { // as versions before have left it
		t.Fatal(err)
	}
	p, err := enter(dir, "policy.yaml")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = p.leave() }()
	if info, err := os.Stat(filepath.Join(dir, presenceLock)); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
}

func TestAFileThatOthersMayWriteIsWarnedOf(t *testing.T) {
	file := filepath.Join(t.TempDir(), "policy.yaml")
	for mode, warned := range map[os.FileMode]bool{0o600: false, 0o644: false, 0o664: true, 0o602: true} {
		write(t, file, oneScope)
		if err := os.Chmod(file, mode); err != nil {
			t.Fatal(err)
		}
		if got := policy.Exposed(file); (len(got) == 1) != warned {
			t.Errorf("mode %o: %q", mode, got)
		}
	}
}

// Clients that ask and do not read keep nobody else waiting, root's socket least of all.
func TestSlowReadersBlockNobody(t *testing.T) {
	var text strings.Builder
	text.WriteString("version: 1\nscopes:\n")
	for i := range 300 {
		fmt.Fprintf(&text, "  s%d: {user: %d, egress: 1Mbit}\n", i, i+1)
	}
	s, client := served(t, text.String())
	for range 8 {
		conn, err := net.Dial("unix", s.Socket)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = conn.Close() }()
		if _, err := io.WriteString(conn, "GET /metrics HTTP/1.1\r\nHost: weir\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
	}
	if status, answer := ask(t, client, "GET", "/metrics", ""); status != http.StatusOK || !strings.Contains(string(answer), "weir_scope_bytes_total") {
		t.Errorf("status %d", status)
	}
}

// A user who makes the folder of the pins first could move them away: nothing is pinned there.
func TestPinsAreNotPutWhereOthersMayMoveThem(t *testing.T) {
	testutil.NeedRoot(t)
	e := setup(t)
	mkdir(t, e.PinDir)
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
