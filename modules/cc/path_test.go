// SPDX-License-Identifier: Apache-2.0

package cc

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"slices"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"weir/internal/child"
	"weir/kernel/netns"
	"weir/kernel/probe"
	"weir/kernel/rtnl"
	"weir/kernel/sysctl"
	"weir/kernel/testutil"
	"weir/modules/cc/internal/wire"
)

func TestMain(m *testing.M) {
	child.Main(child.Parts{"connect": connectPart, "restless": restlessPart})
	os.Exit(m.Run())
}

var installs atomic.Uint32

// install registers DCTCP.
func install(t *testing.T, o Options) *Installed {
	t.Helper()
	return installAs(t, "dctcp", o)
}

// installAs registers an algorithm under a name of the test, since names are global, and checks
// that nothing of it is left.
func installAs(t *testing.T, algorithm string, o Options) *Installed {
	t.Helper()
	testutil.NeedRoot(t)
	testutil.Need(t, "struct_ops", probe.ProgramType(ebpf.StructOps))
	o.Name = fmt.Sprintf("wt%d_%d", os.Getpid(), installs.Add(1))
	i, err := Install(algorithm, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := i.Close(); err != nil {
			t.Error(err)
		}
		if names := offered(t); slices.Contains(names, o.Name) {
			t.Errorf("%s is still offered: %q", o.Name, names)
		}
	})
	return i
}

func offered(t *testing.T) []string {
	t.Helper()
	names, err := probe.CongestionControls()
	if err != nil {
		t.Fatal(err)
	}
	return names
}

// path is two namespaces joined by a veth pair, with a wire on the client's device.
type path struct {
	client, server *netns.Namespace
	wire           *wire.Wire
}

const serverAddress = "10.9.0.2"

func newPath(t *testing.T) *path {
	t.Helper()
	p := &path{client: testutil.Namespace(t, "client"), server: testutil.Namespace(t, "server")}
	client, err := rtnl.Open(p.client)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	server, err := rtnl.Open(p.server)
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	for _, step := range []func() error{
		func() error { return client.AddVeth("eth0", p.server, "eth0", 0) },
		func() error { return client.AddAddress("eth0", netip.MustParsePrefix("10.9.0.1/24")) },
		func() error { return server.AddAddress("eth0", netip.MustParsePrefix(serverAddress+"/24")) },
		func() error { return client.SetUp("eth0") },
		func() error { return server.SetUp("eth0") },
		func() error {
			device, err := client.Device("eth0")
			if err != nil {
				return err
			}
			return p.client.Do(func() error {
				p.wire, err = wire.Attach(device.Index)
				return err
			})
		},
	} {
		if err := step(); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() { _ = p.wire.Close() })
	p.acknowledgeAtOnce(t)
	return p
}

// acknowledgeAtOnce prevents the kernel (Linux 6.7 and later) from deferring acknowledgments while
// it processes a backlog. Then the receiver's DCTCP does not run, and one acknowledgment covers
// packets with and without marks.
func (p *path) acknowledgeAtOnce(t *testing.T) {
	t.Helper()
	for _, ns := range []*netns.Namespace{p.client, p.server} {
		if err := sysctl.Set(ns, "net.ipv4.tcp_backlog_ack_defer", "0"); err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
	}
}

// choose returns a Control function that sets the congestion control of sockets; "" changes
// nothing.
func choose(name string) func(string, string, syscall.RawConn) error {
	return func(_, _ string, raw syscall.RawConn) error {
		if name == "" {
			return nil
		}
		var err error
		return errorOr(raw.Control(func(fd uintptr) {
			err = unix.SetsockoptString(int(fd), unix.IPPROTO_TCP, unix.TCP_CONGESTION, name)
		}), &err)
	}
}

func errorOr(first error, second *error) error {
	if first != nil {
		return first
	}
	return *second
}

// controlName returns the congestion control of a connection.
func controlName(t *testing.T, conn net.Conn) string {
	t.Helper()
	name, err := controlOf(conn)
	if err != nil {
		t.Fatal(err)
	}
	return name
}

func controlOf(conn net.Conn) (name string, err error) {
	raw, err := conn.(*net.TCPConn).SyscallConn()
	if err != nil {
		return "", err
	}
	var failed error
	err = raw.Control(func(fd uintptr) {
		name, failed = unix.GetsockoptString(int(fd), unix.IPPROTO_TCP, unix.TCP_CONGESTION)
	})
	return name, errorOr(err, &failed)
}

// connect makes a connection over the path; its ends set these congestion controls before the
// handshake.
func (p *path) connect(t *testing.T, clientControl, serverControl string) (sender, receiver net.Conn) {
	t.Helper()
	listener := p.listen(t, serverControl)
	sender, err := p.dial(listener.Addr().String(), clientControl)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = sender.Close() })
	if receiver, err = listener.Accept(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = receiver.Close() })
	return sender, receiver
}

// dial connects from the client; the socket sets a congestion control unless it is "".
func (p *path) dial(address, control string) (conn net.Conn, err error) {
	dial := net.Dialer{Control: choose(control), Timeout: 10 * time.Second}
	err = p.client.Do(func() (err error) {
		conn, err = dial.Dial("tcp4", address)
		return err
	})
	return conn, err
}

// transfer sends random bytes one way, checks them at the receiver, and waits until all are
// acknowledged.
func transfer(t *testing.T, random *rand.Rand, sender, receiver net.Conn, octets int) {
	t.Helper()
	data := make([]byte, octets)
	for i := 0; i+8 <= octets; i += 8 {
		binary.NativeEndian.PutUint64(data[i:], random.Uint64())
	}
	sent := make(chan error, 1)
	go func() {
		_, err := sender.Write(data)
		sent <- err
	}()
	received := sha256.New()
	_ = receiver.SetReadDeadline(time.Now().Add(30 * time.Second))
	if _, err := io.CopyN(received, receiver, int64(octets)); err != nil {
		t.Fatal(err)
	}
	if err := <-sent; err != nil {
		t.Fatal(err)
	}
	if want := sha256.Sum256(data); string(received.Sum(nil)) != string(want[:]) {
		t.Error("the octets did not arrive as they were sent")
	}
	raw, err := sender.(*net.TCPConn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	testutil.Eventually(t, 10*time.Second, "the last acknowledgment", func() bool {
		waiting := -1
		_ = raw.Control(func(fd uintptr) { waiting, _ = unix.IoctlGetInt(int(fd), unix.SIOCOUTQ) })
		return waiting == 0
	})
}

// events returns a connection's DCTCP trace.
func events(t *testing.T, trace *Trace[Event], conn net.Conn) []Event {
	t.Helper()
	return eventsOf(t, trace, conn, func(e Event) (uint16, Kind) { return e.LocalPort, e.Kind })
}

// eventsOf returns the events of a connection in a trace, by the local port and the kind.
func eventsOf[E any](t *testing.T, trace *Trace[E], conn net.Conn, of func(E) (port uint16, kind Kind)) (list []E) {
	t.Helper()
	local := uint16(conn.LocalAddr().(*net.TCPAddr).Port)
	for {
		event, err := trace.Next(time.Now())
		if errors.Is(err, os.ErrDeadlineExceeded) {
			return list
		}
		if err != nil {
			t.Fatal(err)
		}
		port, kind := of(event)
		if port != local {
			continue
		}
		if kind == Start {
			list = nil // the handshake
		}
		list = append(list, event)
	}
}
