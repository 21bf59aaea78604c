// SPDX-License-Identifier: Apache-2.0

package soak

import (
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"weir/kernel/cgroup"
	"weir/kernel/netns"
	"weir/kernel/rtnl"
	"weir/kernel/testutil"
)

// ownRate, bytes/s, is the pacing rate set by one application.
const ownRate, unpaced = 100_000_000, 1<<32 - 1

// links are the devices of both namespaces, each on the one of its name.
var links = []string{"eth0", "eth1"}

// foreignTree is the second link's tree without Weir.
var foreignTree = []string{
	"qdisc replace dev eth1 root handle 5: htb default 20 r2q 100",
	"class add dev eth1 parent 5: classid 5:10 htb rate 400mbit ceil 800mbit prio 1",
	"class add dev eth1 parent 5: classid 5:20 htb rate 200mbit quantum 3000",
	"qdisc add dev eth1 parent 5:10 handle 10: pfifo limit 77",
	"filter add dev eth1 parent 5: protocol ip prio 7 u32 match ip dport 80 0xffff flowid 5:10",
}

// place is two namespaces on two links, with connections of cgroups to an echo server.
type place struct {
	here  *netns.Namespace
	echo  netip.AddrPort
	conns []*live
	later *cgroup.Sockets // of b, for later connections
	usual string          // congestion control without any policy
}

// live is a connection with continuous requests.
type live struct {
	fd    int
	rate  int // bytes/s set by its application
	calls chan error
}

func newPlace(t *testing.T, root string) *place {
	t.Helper()
	p := &place{here: testutil.Namespace(t, "soak")}
	there := testutil.Namespace(t, "peer")
	for i, ns := range []*netns.Namespace{p.here, there} {
		conn, err := rtnl.Open(ns)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		for net, dev := range links {
			if i == 0 {
				err = errors.Join(err, conn.AddVeth(dev, there, dev, 0))
			}
			four := netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 9, byte(net), byte(1 + i)}), 24)
			six := netip.PrefixFrom(netip.AddrFrom16([16]byte{0xfd, 9, 15: byte(1 + i), 7: byte(net)}), 64)
			err = errors.Join(err, conn.AddAddress(dev, four), conn.AddAddress(dev, six), conn.SetUp(dev))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	// Foreign state from before Weir: a tree and programs.
	for _, line := range foreignTree {
		if out, err := exec.Command("tc", strings.Fields("-n "+p.here.Name+" "+line)...).CombinedOutput(); err != nil {
			t.Fatalf("tc %s: %v: %s", line, err, out)
		}
	}
	var listener net.Listener
	if err := there.Do(func() (err error) { listener, err = net.Listen("tcp", "10.9.0.2:0"); return err }); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() { _, _ = io.Copy(conn, conn); _ = conn.Close() }()
		}
	}()
	p.echo = netip.MustParseAddrPort(listener.Addr().String())
	for group, rate := range map[string]int{"a": ownRate, "a/inner": unpaced, "b": unpaced} {
		p.connect(t, filepath.Join(root, group), rate)
	}
	var err error
	if p.later, err = (cgroup.Cgroup{Path: filepath.Join(root, "b")}).OpenSockets(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.later.Close() })
	p.usual = p.control(t)
	return p
}

// control returns the congestion control of a new connection of b.
func (p *place) control(t *testing.T) string {
	t.Helper()
	fd, err := p.later.Socket(p.here, unix.AF_INET, unix.SOCK_STREAM)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Close(fd) }()
	name := ""
	if err = unix.Connect(fd, &unix.SockaddrInet4{Port: int(p.echo.Port()), Addr: p.echo.Addr().As4()}); err == nil {
		name, err = unix.GetsockoptString(fd, unix.IPPROTO_TCP, unix.TCP_CONGESTION)
	}
	if err != nil {
		t.Fatal(err)
	}
	return name
}

// connect opens a connection of a cgroup with continuous requests until the end of the test.
func (p *place) connect(t *testing.T, group string, rate int) {
	t.Helper()
	if err := os.MkdirAll(group, 0o755); err != nil {
		t.Fatal(err)
	}
	sockets, err := cgroup.Cgroup{Path: group}.OpenSockets(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = sockets.Close() }()
	fd, err := sockets.Socket(p.here, unix.AF_INET, unix.SOCK_STREAM)
	if err != nil {
		t.Fatal(err)
	}
	if rate != unpaced {
		err = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_MAX_PACING_RATE, rate)
	}
	if err := errors.Join(err, unix.Connect(fd, &unix.SockaddrInet4{Port: int(p.echo.Port()), Addr: p.echo.Addr().As4()})); err != nil {
		t.Fatal(err)
	}
	l := &live{fd, rate, make(chan error, 1)}
	p.conns = append(p.conns, l)
	go l.call()
	t.Cleanup(func() {
		_ = unix.Shutdown(fd, unix.SHUT_RDWR)
		<-l.calls
		_ = unix.Close(fd)
	})
}

func (l *live) call() {
	message := make([]byte, 8000)
	for {
		if _, err := unix.Write(l.fd, message); err != nil {
			l.calls <- err
			return
		}
		for left := len(message); left > 0; {
			n, err := unix.Read(l.fd, message[:left])
			if err == unix.EINTR {
				continue
			}
			if n <= 0 || err != nil {
				l.calls <- errors.Join(io.ErrUnexpectedEOF, err)
				return
			}
			left -= n
		}
	}
}

// paced returns the pacing rate of a socket, bytes/s.
func paced(t *testing.T, fd int) int {
	t.Helper()
	rate, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_MAX_PACING_RATE)
	if err != nil {
		t.Fatal(err)
	}
	return int(uint32(rate))
}

// settings returns the sysctls of the namespace's network, without the names of congestion
// controls, which are the whole host's.
func (p *place) settings(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{}
	if err := p.here.Do(func() error {
		for _, pattern := range []string{"/proc/sys/net/core/*", "/proc/sys/net/ipv4/*", "/proc/sys/net/ipv4/conf/*/*", "/proc/sys/net/ipv6/conf/*/*"} {
			paths, err := filepath.Glob(pattern)
			if err != nil {
				return err
			}
			for _, path := range paths {
				if strings.HasSuffix(path, "/tcp_fastopen_key") || strings.HasSuffix(path, "_congestion_control") && !strings.HasSuffix(path, "/tcp_congestion_control") {
					continue
				}
				if text, err := os.ReadFile(path); err == nil {
					all[path] = string(text)
				}
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return all
}
