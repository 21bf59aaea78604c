// SPDX-License-Identifier: Apache-2.0

package cc

import (
	"net"
	"os"
	"testing"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"weir/internal/fault"
	"weir/internal/kernel/cgroup"
	"weir/internal/kernel/sysctl"
	"weir/internal/match"
	"weir/internal/testutil"
)

// heldGroup is a cgroup with this process in it, whose downloads are held.
func heldGroup(t *testing.T, name string) *Receiver {
	t.Helper()
	testutil.NeedRoot(t)
	testutil.Need(t, "jit", match.Cgroup.Needs(ebpf.SockOps))
	group := testutil.Cgroup(t)
	former, err := cgroup.Of(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := former.Add(os.Getpid()); err != nil {
			t.Error(err)
		}
	})
	if err := group.Add(os.Getpid()); err != nil {
		t.Fatal(err)
	}
	held, err := Receive(group.Path, name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = held.Close() })
	return held
}

// clampOf is the bound of a connection's receive window.
func clampOf(t *testing.T, conn net.Conn) (clamp int) {
	t.Helper()
	raw, err := conn.(*net.TCPConn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	var failed error
	err = raw.Control(func(fd uintptr) { clamp, failed = unix.GetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_WINDOW_CLAMP) })
	if errorOr(err, &failed) != nil {
		t.Fatal(err, failed)
	}
	return clamp
}

// TestDownloadsAreHeldAndSetFree looks at the bound of a window before much has come, after that,
// and when nothing steers it any more.
func TestDownloadsAreHeldAndSetFree(t *testing.T) {
	for _, name := range Receivings() {
		t.Run(name, func(t *testing.T) {
			p := newPath(t)
			held := heldGroup(t, name)
			client, server := p.connect(t, "", "")
			random := testutil.Rand(t)
			transfer(t, random, server, client, 4096)
			// Ten segments, and what slow start makes of three at most.
			if got := clampOf(t, client); got < 10*1000 || got > 14*1460 {
				t.Errorf("the window is bounded to %d octets, want about ten segments", got)
			}
			transfer(t, random, server, client, 1<<20)
			counts, err := held.Counts()
			if err != nil || counts.Connections != 2 || counts.Steps == 0 || counts.Window() < 2*1000 {
				t.Errorf("counted %+v, %v", counts, err)
			}
			if err := held.Close(); err != nil {
				t.Fatal(err)
			}
			free := clampOf(t, client)
			transfer(t, random, server, client, 1<<20)
			if free < 60_000 || clampOf(t, client) < free {
				t.Errorf("the freed window is bounded to %d octets, then to %d", free, clampOf(t, client))
			}
		})
	}
}

// Without timestamps there are no round-trip times.
func TestConnectionsWithoutTimestampsAreLeftAlone(t *testing.T) {
	p := newPath(t)
	held := heldGroup(t, "rledbat")
	if err := sysctl.Set(p.server, "net.ipv4.tcp_timestamps", "0"); err != nil {
		t.Fatal(err)
	}
	client, server := p.connect(t, "", "")
	transfer(t, testutil.Rand(t), server, client, 1<<20)
	counts, err := held.Counts()
	if err != nil || counts != (Received{NoTimestamps: 2}) {
		t.Errorf("counted %+v, %v", counts, err)
	}
}

func TestOnlyWhatIsKnownHoldsDownloads(t *testing.T) {
	if _, err := Receive("/", "ledbat"); fault.Of(err) != fault.Usage {
		t.Errorf("got %v", err)
	}
}
