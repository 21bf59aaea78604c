// SPDX-License-Identifier: Apache-2.0

// Package limittest has the network namespaces, cgroups and processes that tests of limits share.
package limittest

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"weir/internal/child"
	"weir/kernel/cgroup"
	"weir/kernel/ethtool"
	"weir/kernel/netns"
	"weir/kernel/rtnl"
	"weir/kernel/sysctl"
	"weir/kernel/testutil"
)

// Task is the work of a child process.
type Task struct {
	Namespace, Network, Address string
	Messages, Size, Pace        int // Pace is the own pacing rate of a talker in byte/s; 0 for none
}

// Load is a child process that sends the messages of its task, which arrives after the move into
// its cgroup.
func Load(in io.Reader, out io.Writer) error {
	var work Task
	if err := json.NewDecoder(in).Decode(&work); err != nil {
		return err
	}
	ns, err := netns.Open(work.Namespace)
	if err != nil {
		return err
	}
	var conn net.Conn
	err = ns.Do(func() (err error) {
		conn, err = net.Dial(work.Network, work.Address)
		return err
	})
	if err != nil {
		return err
	}
	message := make([]byte, work.Size)
	for range work.Messages {
		if _, err := conn.Write(message); err != nil {
			return fmt.Errorf("send: %w", err)
		}
	}
	if err := conn.Close(); err != nil {
		return err
	}
	_, err = fmt.Fprintln(out, "sent")
	return err
}

// Talk is a child process that connects, and then for each line sends data, waits for the answer
// and reports the pacing rate and the window clamp of its socket.
func Talk(in io.Reader, out io.Writer) error {
	lines := bufio.NewReader(in)
	first, err := lines.ReadBytes('\n')
	if err != nil {
		return err
	}
	var work Task
	if err := json.Unmarshal(first, &work); err != nil {
		return err
	}
	ns, err := netns.Open(work.Namespace)
	if err != nil {
		return err
	}
	var conn net.Conn
	err = ns.Do(func() (err error) {
		conn, err = net.Dial("tcp", work.Address)
		return err
	})
	if err != nil {
		return err
	}
	raw, err := conn.(*net.TCPConn).SyscallConn()
	if err != nil {
		return err
	}
	if work.Pace > 0 {
		err := raw.Control(func(fd uintptr) { _ = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_MAX_PACING_RATE, work.Pace) })
		if err != nil {
			return err
		}
	}
	buffer := make([]byte, 64<<10)
	for {
		rate, clamp := 0, 0
		var err1, err2 error
		err := raw.Control(func(fd uintptr) {
			rate, err1 = unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_MAX_PACING_RATE)
			clamp, err2 = unix.GetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_WINDOW_CLAMP)
		})
		if err := errors.Join(err, err1, err2); err != nil {
			return err
		}
		if _, err := fmt.Fprintln(out, uint32(rate), clamp); err != nil {
			return err
		}
		if _, err := lines.ReadBytes('\n'); err != nil {
			return nil
		}
		if _, err := conn.Write(buffer); err != nil {
			return err
		}
		if _, err := io.ReadFull(conn, buffer); err != nil {
			return err
		}
	}
}

// Nested creates a cgroup inside a cgroup, and removes both at the end.
func Nested(t *testing.T) (outer, inner cgroup.Cgroup) {
	t.Helper()
	outer = testutil.Cgroup(t)
	inner, err := cgroup.Create(outer.Path, "inner")
	if err != nil {
		t.Fatal(err)
	}
	return outer, inner
}

// Path creates two namespaces joined by a veth pair, with frames up to the MTU.
func Path(t *testing.T) (client, server *netns.Namespace, address netip.Addr) {
	t.Helper()
	client, server = testutil.Namespace(t, "client"), testutil.Namespace(t, "server")
	for _, end := range []struct {
		ns     *netns.Namespace
		device string
		prefix string
	}{{client, "eth0", "10.9.0.1/24"}, {server, "eth0", "10.9.0.2/24"}} {
		conn, err := rtnl.Open(end.ns)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if end.ns == client {
			if err := conn.AddVeth("eth0", server, "eth0", 0); err != nil {
				t.Fatal(err)
			}
		}
		if err := conn.AddAddress(end.device, netip.MustParsePrefix(end.prefix)); err != nil {
			t.Fatal(err)
		}
		if err := conn.SetUp(end.device); err != nil {
			t.Fatal(err)
		}
		// Only the packets of the transfer must cross the device.
		if err := sysctl.Set(end.ns, "net.ipv6.conf.all.disable_ipv6", "1"); err != nil {
			t.Fatal(err)
		}
		if err := ethtool.SetFeatures(end.ns, end.device, map[string]bool{"tso": false, "gso": false}); err != nil {
			t.Fatal(err)
		}
	}
	pin(t, client, server, "10.9.0.2")
	pin(t, server, client, "10.9.0.1")
	return client, server, netip.MustParseAddr("10.9.0.2")
}

// pin adds a static neighbor, so that no ARP is sent.
func pin(t *testing.T, from, to *netns.Namespace, address string) {
	t.Helper()
	there, err := rtnl.Open(to)
	if err != nil {
		t.Fatal(err)
	}
	defer there.Close()
	device, err := there.Device("eth0")
	if err != nil {
		t.Fatal(err)
	}
	here, err := rtnl.Open(from)
	if err != nil {
		t.Fatal(err)
	}
	defer here.Close()
	if err := here.AddNeighbor("eth0", netip.MustParseAddr(address), device.MAC); err != nil {
		t.Fatal(err)
	}
}

// Listen listens for TCP in a namespace until the test ends.
func Listen(t *testing.T, ns *netns.Namespace, address netip.Addr) (listener net.Listener) {
	t.Helper()
	err := ns.Do(func() (err error) {
		listener, err = net.Listen("tcp", netip.AddrPortFrom(address, 0).String())
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	return listener
}

// Serve handles each connection in a goroutine, and returns the address and port.
func Serve(t *testing.T, ns *netns.Namespace, address netip.Addr, each func(net.Conn)) string {
	t.Helper()
	listener := Listen(t, ns, address)
	go Accept(listener, each)
	return listener.Addr().String()
}

// Accept handles each connection in a goroutine, until the listener is closed.
func Accept(listener net.Listener, each func(net.Conn)) {
	for {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		go func() {
			each(conn)
			_ = conn.Close()
		}()
	}
}

// Talker starts the child process "talk" in a cgroup, towards an echo server. Each line of its
// output reports the socket.
func Talker(t *testing.T, group cgroup.Cgroup, client *netns.Namespace, address string) (*child.Process, *bufio.Scanner) {
	t.Helper()
	return StartTalker(t, group, Task{Namespace: client.Name, Address: address})
}

func StartTalker(t *testing.T, group cgroup.Cgroup, work Task) (*child.Process, *bufio.Scanner) {
	t.Helper()
	process, err := child.Start(context.Background(), "talk", os.Stderr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = process.Stop(5 * time.Second) })
	if err := group.Add(process.PID()); err != nil {
		t.Fatal(err)
	}
	if err := json.NewEncoder(process.In).Encode(work); err != nil {
		t.Fatal(err)
	}
	return process, bufio.NewScanner(process.Out)
}

// Pins returns a folder for pins, in a BPF file system of this test.
func Pins(t *testing.T) string {
	t.Helper()
	return filepath.Join(testutil.BPFFS(t), "limit")
}

// UDPSink listens in the namespace and returns its address.
func UDPSink(t *testing.T, ns *netns.Namespace, address netip.Addr) string {
	t.Helper()
	var sink net.PacketConn
	err := ns.Do(func() (err error) {
		sink, err = net.ListenPacket("udp", netip.AddrPortFrom(address, 0).String())
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = sink.Close() })
	return sink.LocalAddr().String()
}

// Echo serves connections that return their data.
func Echo(t *testing.T, ns *netns.Namespace, address netip.Addr) string {
	t.Helper()
	return Serve(t, ns, address, func(conn net.Conn) { _, _ = io.Copy(conn, conn) })
}
