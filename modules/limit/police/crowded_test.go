// SPDX-License-Identifier: Apache-2.0

package police

import (
	"net"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"weir/kernel/netns"
	"weir/kernel/sysctl"
	"weir/kernel/testutil"
)

// crowd is a TCP connection to a socket behind an ingress limit.
type crowd struct {
	plane  *DataPlane
	fd     int              // of the receiving socket
	conn   net.Conn         // of the sender
	server *netns.Namespace // of the sender
}

func newCrowd(t *testing.T, l Limit) *crowd {
	t.Helper()
	client, server, address := path(t)
	for _, ns := range []*netns.Namespace{client, server} {
		if err := sysctl.Set(ns, "net.ipv4.tcp_ecn", "0"); err != nil {
			t.Fatal(err)
		}
	}
	listener := listen(t, server, address)
	controlBy(t, listener, "reno")
	c := &crowd{server: server}
	p, sockets := socketsBelow(t, Ingress, l)
	c.plane = p
	var err error
	if c.fd, err = connected(sockets, client, listener.Addr().String()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Close(c.fd) })
	if c.conn, err = listener.Accept(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.conn.Close() })
	return c
}

// send sends full segments without PSH and returns their bytes.
func (c *crowd) send(t *testing.T, segments int) (octets int) {
	t.Helper()
	raw, err := c.conn.(*net.TCPConn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	var refused error
	if err := raw.Control(func(fd uintptr) {
		var size int
		if size, refused = unix.GetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_MAXSEG); refused == nil {
			octets, refused = unix.SendmsgN(int(fd), make([]byte, segments*size), nil, nil, unix.MSG_MORE)
		}
	}); err != nil || refused != nil {
		t.Fatal(err, refused)
	}
	return octets
}

// state returns the data plane's state of the receiving socket.
func (c *crowd) state(t *testing.T) (state limitSocketState) {
	t.Helper()
	if err := c.plane.objects.LimitSockets.Lookup(int32(c.fd), &state); err != nil {
		t.Fatal(err)
	}
	return state
}

// arrive waits until the given number of bytes was read.
func (c *crowd) arrive(t *testing.T, octets int) {
	t.Helper()
	buffer := make([]byte, octets)
	testutil.Eventually(t, 15*time.Second, "the arrival of what the timer sends again", func() bool {
		n, _, err := unix.Recvfrom(c.fd, buffer[:octets], unix.MSG_DONTWAIT)
		if err != nil && err != unix.EAGAIN && err != unix.EINTR {
			t.Fatal(err)
		}
		octets -= max(n, 0)
		return octets == 0
	})
}

// After the drop of a retransmission at the ceiling, immediate retransmissions are dropped above
// the threshold too: of four segments only the probe passes. The retransmission by the timer
// passes, or the timer would double until the queue is short.
func TestTimersAreSparedWhereRepairsAreDropped(t *testing.T) {
	// A queue of 40 s neither drains nor grows noticeably within the test.
	l := Limit{Rate: 1_000_000_000, Burst: time.Millisecond, Mark: 10 * time.Second, Drop: 20 * time.Second, Reserve: time.Millisecond}
	c := newCrowd(t, l)
	const segments = 4
	fillAt(t, c.plane, 0, Ingress, 6*l.Drop)
	octets := c.send(t, segments)
	testutil.Eventually(t, 15*time.Second, "the rejection of a retransmission at the ceiling", func() bool { return c.state(t).Crowded == 1 })
	if n := countersAt(t, c.plane, 0, Ingress); n.Dropped <= segments || n.Forced != 0 {
		t.Errorf("at the ceiling %d segments were refused and %d forced, want more than %d and none", n.Dropped, n.Forced, segments)
	}
	fillAt(t, c.plane, 0, Ingress, 2*l.Drop)
	c.arrive(t, octets)
	before := countersAt(t, c.plane, 0, Ingress)
	if before.Forced == 0 {
		t.Error("what the timer sent again was not forced")
	}
	c.arrive(t, c.send(t, segments))
	after := countersAt(t, c.plane, 0, Ingress)
	if n := after.Dropped - before.Dropped; n < 2 {
		t.Errorf("%d segments were refused, want the second and some that followed at once", n)
	}
	if n := after.Forced - before.Forced; n < segments {
		t.Errorf("%d of %d segments were forced", n, segments)
	}
}
