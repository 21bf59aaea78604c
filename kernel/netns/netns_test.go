// SPDX-License-Identifier: Apache-2.0

package netns_test

import (
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"weir/kernel/netns"
	"weir/kernel/testutil"
)

func TestCreateOpenRemove(t *testing.T) {
	ns := testutil.Namespace(t, "made")
	names, err := netns.List("weirtest-")
	if err != nil || !slices.Contains(names, ns.Name) {
		t.Errorf("%s is not in %q, %v", ns.Name, names, err)
	}
	if _, err := netns.Create(ns.Name); !errors.Is(err, os.ErrExist) {
		t.Errorf("create a second time: %v", err)
	}
	again, err := netns.Open(ns.Name)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = again.Close() }()
	first, _ := ns.Inode()
	second, err := again.Inode()
	if err != nil || first != second || first == 0 {
		t.Errorf("inodes %d and %d, %v", first, second, err)
	}
	if err := netns.Remove("weirtest-never-made"); err != nil {
		t.Errorf("remove a missing name: %v", err)
	}
	for _, name := range []string{"", "a/b", "a b"} {
		if _, err := netns.Create(name); err == nil {
			t.Errorf("name %q accepted", name)
		}
	}
}

func TestDoEntersAndReturns(t *testing.T) {
	ns := testutil.Namespace(t, "entered")
	wrong := errors.New("what f returned")
	var inside uint64
	err := ns.Do(func() error {
		current, err := netns.Current()
		if err != nil {
			return err
		}
		defer func() { _ = current.Close() }()
		inside, err = current.Inode()
		return errors.Join(wrong, err)
	})
	if want, _ := ns.Inode(); !errors.Is(err, wrong) || inside != want {
		t.Errorf("inside %d, want %d; error %v", inside, want, err)
	}
	current, err := netns.Current()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = current.Close() }()
	if after, _ := current.Inode(); after == inside {
		t.Error("the thread did not come back")
	}
}

func TestDoOfNoNamespaceStaysWhereItIs(t *testing.T) {
	inode := func() uint64 {
		current, err := netns.Current()
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = current.Close() }()
		found, err := current.Inode()
		if err != nil {
			t.Fatal(err)
		}
		return found
	}
	wrong := errors.New("what f returned")
	// In a separate namespace, to distinguish the host's from the caller's.
	if err := testutil.Namespace(t, "caller").Do(func() error {
		outside, inside := inode(), uint64(0)
		err := (*netns.Namespace)(nil).Do(func() error {
			inside = inode()
			return wrong
		})
		if inside != outside {
			t.Errorf("inside %d, called in %d", inside, outside)
		}
		return err
	}); !errors.Is(err, wrong) {
		t.Errorf("error %v, want what f returned", err)
	}
}

func TestLoopbackIsUp(t *testing.T) {
	if err := testutil.Namespace(t, "loopback").Do(func() error {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return err
		}
		defer func() { _ = listener.Close() }()
		conn, err := net.Dial("tcp", listener.Addr().String())
		if err != nil {
			return err
		}
		return conn.Close()
	}); err != nil {
		t.Error(err)
	}
}

func TestFreshIsNewAndLeavesNoThreadBehind(t *testing.T) {
	testutil.NeedRoot(t)
	testutil.Snapshot(t)
	seen := map[uint64]bool{}
	var held []*netns.Namespace // an open handle keeps the number from being reused
	defer func() {
		for _, ns := range held {
			_ = ns.Close()
		}
	}()
	for range 4 {
		if err := netns.Fresh(func() error {
			current, err := netns.Current()
			if err != nil {
				return err
			}
			held = append(held, current)
			inode, err := current.Inode()
			seen[inode] = true
			return err
		}); err != nil {
			t.Fatal(err)
		}
	}
	if len(seen) != 4 {
		t.Errorf("%d different namespaces of 4", len(seen))
	}
}

// A policy may name any path: a file that blocks must not block the reader.
func TestWhatIsNoNamespaceIsNotOpened(t *testing.T) {
	fifo := filepath.Join(t.TempDir(), "fifo")
	if err := unix.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{fifo, "/dev/zero", "/proc/self/status", t.TempDir()} {
		if ns, err := netns.OpenPath(path); err == nil || !strings.Contains(err.Error(), "it is no namespace") {
			t.Errorf("%s: opened as %v, %v", path, ns, err)
		}
	}
}

// TestOthersMakeNamespacesLater starts in a mount namespace without any network namespace: the
// mount of ip-netns(8) must not cover existing ones.
func TestOthersMakeNamespacesLater(t *testing.T) {
	testutil.NeedRoot(t)
	const inside = "WEIR_TEST_IN_MOUNTS"
	ip := testutil.Command(t, "ip")
	if os.Getenv(inside) == "" {
		command := exec.Command(testutil.Command(t, "unshare"), "--mount", "--propagation", "private", os.Args[0], "-test.run", "^"+t.Name()+"$", "-test.v")
		command.Env = append(os.Environ(), inside+"=yes")
		out, err := command.CombinedOutput()
		if err != nil || !strings.Contains(string(out), "--- PASS") {
			t.Errorf("%v\n%s", err, out)
		}
		return
	}
	if err := unix.Mount("none", "/run", "tmpfs", 0, ""); err != nil {
		t.Fatal(err)
	}
	ns, err := netns.Create("first")
	if err != nil {
		t.Fatal(err)
	}
	_ = ns.Close()
	if out, err := exec.Command(ip, "netns", "add", "second").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if err := netns.Remove("first"); err != nil {
		t.Error(err)
	}
	if names, err := netns.List(""); err != nil || !slices.Equal(names, []string{"second"}) {
		t.Errorf("%v, %v", names, err)
	}
}
