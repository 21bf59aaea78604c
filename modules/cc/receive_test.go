// SPDX-License-Identifier: Apache-2.0

package cc

import (
	"net"
	"os"
	"path/filepath"
	"testing"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"weir/core/match"
	"weir/core/module"
	"weir/internal/fault"
	"weir/kernel/cgroup"
	"weir/kernel/rtnl"
	"weir/kernel/sysctl"
	"weir/kernel/testutil"
)

// ownGroup is a cgroup with this process in it.
func ownGroup(t *testing.T) cgroup.Cgroup {
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
	return group
}

// holdDownloads applies rLEDBAT to the downloads of this process.
func holdDownloads(t *testing.T, name string) *Receiver {
	t.Helper()
	held, err := Receive(ownGroup(t).Path, name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = held.Close() })
	return held
}

// clampOf returns a connection's TCP_WINDOW_CLAMP.
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

// TestDownloadsAreHeldAndSetFree checks the window clamp at the start of a connection, after some
// data, and after the policy ends.
func TestDownloadsAreHeldAndSetFree(t *testing.T) {
	for _, name := range Receivings() {
		t.Run(name, func(t *testing.T) {
			p := newPath(t)
			held := holdDownloads(t, name)
			client, server := p.connect(t, "", "")
			random := testutil.Rand(t)
			transfer(t, random, server, client, 4096)
			// Ten segments, at most tripled by slow start.
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

// isHeld reports whether a window is limited to about ten segments.
func isHeld(t *testing.T, conn net.Conn) bool {
	t.Helper()
	return clampOf(t, conn) <= 14*1460
}

// TestAPolicyHoldsDownloads: one scope ends while the program stays, another ends with the policy.
func TestAPolicyHoldsDownloads(t *testing.T) {
	p, group := newPath(t), ownGroup(t)
	plane, random := ownPlane(t, group.Path, filepath.Join(testutil.BPFFS(t), "cc")), testutil.Rand(t)
	want := plane.state(t, "  a: {prefix: 10.9.0.0/24, downloads: rledbat}\n  b: {user: 4711, congestion: reno}\n")
	other := plane.state(t, "  b: {user: 4711, congestion: reno}\n")
	for _, release := range []bool{false, true} {
		plane.apply(t, module.State{}, want)
		client, server := p.connect(t, "", "")
		transfer(t, random, server, client, 4096)
		if !isHeld(t, client) {
			t.Errorf("the window is bounded to %d octets", clampOf(t, client))
		}
		report, err := plane.Report(want)
		if err != nil || len(report.Rows) != 2 || report.Rows[0].Promise != "downloads rledbat" || report.Rows[0].Values[4].Count != 2 {
			t.Errorf("told %+v, %v", report, err)
		}
		if release {
			if _, err := plane.Release(); err != nil {
				t.Fatal(err)
			}
		} else {
			plane.apply(t, want, other)
			transfer(t, random, server, client, 4096) // its acknowledgments restore the window
		}
		if isHeld(t, client) {
			t.Errorf("the freed window is bounded to %d octets", clampOf(t, client))
		}
		if !release {
			plane.apply(t, other, module.State{})
		}
	}
}

// Without timestamps there are no RTT samples.
func TestConnectionsWithoutTimestampsAreLeftAlone(t *testing.T) {
	p := newPath(t)
	held := holdDownloads(t, "rledbat")
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

// Connections over loopback share no queue, so they stay unchanged.
func TestConnectionsThatStayHereAreLeftAlone(t *testing.T) {
	p := newPath(t)
	held := holdDownloads(t, "rledbat")
	conn, err := rtnl.Open(p.client)
	if err == nil {
		err = conn.SetUp("lo")
		conn.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, address := range []string{"127.0.0.1", "127.3.2.1", "::1", "::ffff:127.0.0.1", "10.9.0.1"} {
		err := p.client.Do(func() error {
			listener, err := net.Listen("tcp", net.JoinHostPort(address, "0"))
			if err != nil {
				return err
			}
			defer func() { _ = listener.Close() }()
			client, err := net.Dial("tcp", listener.Addr().String())
			if err != nil {
				return err
			}
			t.Cleanup(func() { _ = client.Close() })
			server, err := listener.Accept()
			if err != nil {
				return err
			}
			t.Cleanup(func() { _ = server.Close() })
			if isHeld(t, client) || isHeld(t, server) {
				t.Errorf("%s: windows are bounded to %d and %d octets", address, clampOf(t, client), clampOf(t, server))
			}
			return nil
		})
		if err != nil {
			t.Fatalf("%s: %v", address, err)
		}
	}
	if counts, err := held.Counts(); err != nil || counts != (Received{}) {
		t.Errorf("counted %+v, %v", counts, err)
	}
}

func TestOnlyWhatIsKnownHoldsDownloads(t *testing.T) {
	if _, err := Receive("/", "ledbat"); fault.Of(err) != fault.Usage {
		t.Errorf("got %v", err)
	}
}
