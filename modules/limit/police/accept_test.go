// SPDX-License-Identifier: Apache-2.0

package police

import (
	"errors"
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"weir/kernel/cgroup"
	"weir/kernel/testutil"
)

// A connection is charged to the cgroup of the process that accepts it, although its listener
// belongs to another cgroup, as with socket activation.
func TestAcceptedSocketsBelongToTheAcceptingProcess(t *testing.T) {
	testutil.NeedRoot(t)
	p, err := Load(1)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = p.Close() }()
	manager, unit := testutil.Cgroup(t), testutil.Cgroup(t)
	root, err := cgroup.Root()
	if err != nil {
		t.Fatal(err)
	}
	id, err := unit.ID()
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(p.AssignCgroup(id, 0), p.Set(0, Egress, Limit{Rate: MaxRate, Loopback: true}), p.Attach(root)); err != nil {
		t.Fatal(err)
	}
	if err := p.AttachAccept(); err != nil {
		t.Fatal(err)
	}
	own, err := cgroup.Own()
	if err != nil {
		t.Fatal(err)
	}
	move := func(to cgroup.Cgroup) {
		t.Helper()
		if err := to.Add(os.Getpid()); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() { move(cgroup.Cgroup{Path: own}) })
	socket := func() int {
		t.Helper()
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = unix.Close(fd) })
		return fd
	}
	move(manager)
	listener, client := socket(), socket()
	if err := errors.Join(unix.Bind(listener, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}), unix.Listen(listener, 4)); err != nil {
		t.Fatal(err)
	}
	at, err := unix.Getsockname(listener)
	if err != nil {
		t.Fatal(err)
	}
	// Data that arrives before the accept caches the scopes of the listener's cgroup.
	if err := unix.Connect(client, at); err != nil {
		t.Fatal(err)
	}
	if _, err := unix.Write(client, make([]byte, 100)); err != nil {
		t.Fatal(err)
	}
	for i, by := range []cgroup.Cgroup{unit, manager} {
		if i > 0 {
			move(manager)
			if client = socket(); unix.Connect(client, at) != nil {
				t.Fatal("the second connection was rejected")
			}
		}
		move(by)
		fd, _, err := unix.Accept(listener)
		if err != nil {
			t.Fatal(err)
		}
		before := counters(t, p, 0).Packets
		if _, err := unix.Write(fd, make([]byte, 100)); err != nil {
			t.Fatal(err)
		}
		if _, err := unix.Read(client, make([]byte, 100)); err != nil {
			t.Fatal(err)
		}
		if got := counters(t, p, 0).Packets > before; got != (by == unit) {
			t.Errorf("accepted in %s: charged to the unit %t", by.Path, got)
		}
		_ = unix.Close(fd)
	}
}
