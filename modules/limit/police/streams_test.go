// SPDX-License-Identifier: Apache-2.0

package police

import (
	"errors"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"weir/kernel/netns"
)

// port is the port of the listeners.
const port = 9

// streamsElsewhere returns the data plane of elsewhere, attached to a cgroup, and a namespace for
// its sockets.
func streamsElsewhere(t *testing.T) (p *DataPlane, ns *netns.Namespace, inside func() int) {
	t.Helper()
	p = elsewhere(t)
	for scope := range 3 {
		if err := p.Set(scope, Egress, Limit{Rate: MaxRate, Loopback: true}); err != nil {
			t.Fatal(err)
		}
	}
	ns, socket := chargedSockets(t, p)
	return p, ns, func() int { return socket(unix.SOCK_STREAM) }
}

// outside returns a socket that is charged to no scope.
func outside(t *testing.T, ns *netns.Namespace) (fd int) {
	t.Helper()
	if err := ns.Do(func() (err error) {
		fd, err = unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Close(fd) })
	return fd
}

// loopback returns a socket address in 127.0.0.0/24.
func loopback(last byte, port int) *unix.SockaddrInet4 {
	return &unix.SockaddrInet4{Port: port, Addr: [4]byte{127, 0, 0, last}}
}

// disconnect resets a stream socket, which may then connect elsewhere.
func disconnect(fd int) error {
	address := unix.RawSockaddr{Family: unix.AF_UNSPEC}
	if _, _, errno := unix.Syscall(unix.SYS_CONNECT, uintptr(fd), uintptr(unsafe.Pointer(&address)), unsafe.Sizeof(address)); errno != 0 {
		return errno
	}
	return nil
}

func TestStreamsThatAreConnectedAnewFindTheirScopes(t *testing.T) {
	p, ns, inside := streamsElsewhere(t)
	listener, fd := outside(t, ns), inside()
	if err := errors.Join(unix.Bind(listener, &unix.SockaddrInet4{Port: port}), unix.Listen(listener, 4), unix.Connect(fd, loopback(1, port)),
		disconnect(fd)); err != nil {
		t.Fatal(err)
	}
	if first, second := counters(t, p, 1).Packets, counters(t, p, 2).Packets; first == 0 || second != 0 {
		t.Errorf("a connection to the first remote: its scope counts %d packets, the other's %d", first, second)
	}
	before := counters(t, p, 1).Packets
	if err := unix.Connect(fd, loopback(2, port)); err != nil {
		t.Fatal(err)
	}
	if first, second := counters(t, p, 1).Packets-before, counters(t, p, 2).Packets; first != 0 || second == 0 {
		t.Errorf("a connection to the second remote: its scope counts %d packets, the other's %d", second, first)
	}
}

// A listener's answer is charged to the scopes of its destination.
func TestListenersAnswerInTheScopesOfTheDestination(t *testing.T) {
	p, ns, inside := streamsElsewhere(t)
	listener := inside()
	if err := errors.Join(unix.Bind(listener, &unix.SockaddrInet4{Port: port}), unix.Listen(listener, 4)); err != nil {
		t.Fatal(err)
	}
	for _, last := range []byte{1, 2, 1} {
		before := [3]uint64{1: counters(t, p, 1).Packets, 2: counters(t, p, 2).Packets}
		client := outside(t, ns)
		if err := errors.Join(unix.Bind(client, loopback(last, 0)), unix.Connect(client, loopback(1, port))); err != nil {
			t.Fatal(err)
		}
		for scope := 1; scope < 3; scope++ {
			want := uint64(0)
			if byte(scope) == last {
				want = 1 // the SYN-ACK
			}
			if got := counters(t, p, scope).Packets - before[scope]; got != want {
				t.Errorf("a request from 127.0.0.%d: scope %d counts %d packets, want %d", last, scope, got, want)
			}
		}
	}
}
