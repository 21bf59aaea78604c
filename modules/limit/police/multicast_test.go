// SPDX-License-Identifier: Apache-2.0

package police

import (
	"errors"
	"testing"

	"golang.org/x/sys/unix"

	"weir/kernel/testutil"
)

// Local copies of a host's own multicast datagrams were never on a wire: ingress limits do not
// charge them, for any number of receiving sockets.
func TestOwnMulticastIsNotChargedAtIngress(t *testing.T) {
	p := plane(t, 1)
	if err := p.Set(0, Ingress, Limit{Rate: MaxRate}); err != nil {
		t.Fatal(err)
	}
	client, _, _ := path(t)
	cgroup := testutil.Cgroup(t)
	sockets, err := cgroup.OpenSockets(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = sockets.Close() })
	if err := p.Attach(cgroup.Path); err != nil {
		t.Fatal(err)
	}
	socket := func(kind int) int {
		t.Helper()
		fd, err := sockets.Socket(client, unix.AF_INET, kind)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = unix.Close(fd) })
		return fd
	}
	group := &unix.SockaddrInet4{Port: 5999, Addr: [4]byte{239, 9, 9, 9}}
	local := [4]byte{10, 9, 0, 1}
	var receivers []int
	for range 3 {
		fd := socket(unix.SOCK_DGRAM)
		if err := errors.Join(unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1), unix.Bind(fd, group),
			unix.SetsockoptIPMreq(fd, unix.IPPROTO_IP, unix.IP_ADD_MEMBERSHIP, &unix.IPMreq{Multiaddr: group.Addr, Interface: local})); err != nil {
			t.Fatal(err)
		}
		receivers = append(receivers, fd)
	}
	sender := socket(unix.SOCK_DGRAM)
	if err := errors.Join(unix.SetsockoptInet4Addr(sender, unix.IPPROTO_IP, unix.IP_MULTICAST_IF, local), unix.Sendto(sender, make([]byte, 60), 0, group)); err != nil {
		t.Fatal(err)
	}
	for _, fd := range receivers {
		if n, err := unix.Read(fd, make([]byte, 100)); err != nil || n != 60 {
			t.Fatalf("received %d bytes, %v", n, err)
		}
	}
	c, err := p.Counters(0, Ingress)
	if err != nil || c.Packets != 0 {
		t.Errorf("%d packets charged, %v", c.Packets, err)
	}
}
