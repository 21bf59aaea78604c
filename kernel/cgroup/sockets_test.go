// SPDX-License-Identifier: Apache-2.0

package cgroup_test

import (
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"weir/internal/child"
	"weir/kernel/cgroup"
	"weir/kernel/testutil"
)

func TestMain(m *testing.M) {
	child.Main(child.Parts{cgroup.SocketsPart: cgroup.ServeSockets})
	os.Exit(m.Run())
}

// A socket must be in the requested namespace. The tests of lab/run show that it is charged to the
// cgroup: they have counting programs there.
func TestSocketsBelongToTheNamespace(t *testing.T) {
	group, ns := testutil.Cgroup(t), testutil.Namespace(t, "sockets")
	sockets, err := group.OpenSockets(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	pids, err := group.Processes()
	if err != nil || len(pids) != 1 {
		t.Fatalf("processes in the cgroup: %v, %v", pids, err)
	}
	want, err := ns.Inode()
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		fd, err := sockets.Socket(ns, unix.AF_INET, unix.SOCK_STREAM)
		if err != nil {
			t.Fatal(err)
		}
		inside, err := unix.IoctlRetInt(fd, unix.SIOCGSKNS)
		if err != nil {
			t.Fatal(err)
		}
		var status unix.Stat_t
		if err := unix.Fstat(inside, &status); err != nil || status.Ino != want {
			t.Errorf("the socket is in namespace %d, want %d (%v)", status.Ino, want, err)
		}
		_, _ = unix.Close(inside), unix.Close(fd)
	}
	if _, err := sockets.Socket(ns, -1, unix.SOCK_STREAM); err == nil {
		t.Error("a socket of no family was made")
	}
	if fd, err := sockets.Socket(nil, unix.AF_INET, unix.SOCK_DGRAM); err != nil {
		t.Errorf("after an error: %v", err)
	} else {
		_ = unix.Close(fd)
	}
	if err := sockets.Close(); err != nil {
		t.Error(err)
	}
	if pids, err := group.Processes(); err != nil || len(pids) != 0 {
		t.Errorf("processes left in the cgroup: %v, %v", pids, err)
	}
}
