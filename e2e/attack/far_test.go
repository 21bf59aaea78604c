// SPDX-License-Identifier: Apache-2.0

package attack

import (
	"encoding/binary"
	"io"
	"net"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"weir/kernel/netns"
)

// far counts the arrivals at the other end of the link: bytes of frames, by the last byte of the
// address, those of attackers separately.
type far struct {
	mu    sync.Mutex // guards the counts
	all   [256]int
	evils [256]int
}

// attackerPorts is the first port of the attackers' traffic.
const attackerPorts = 6000

func watch(t *testing.T, ns *netns.Namespace) *far {
	t.Helper()
	f := &far{}
	var fd int
	var listener net.Listener
	var taker net.PacketConn // of the bystanders' datagrams, so that none is answered by an error
	if err := ns.Do(func() (err error) {
		if fd, err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW, int(binary.NativeEndian.Uint16([]byte{8, 0}))); err != nil {
			return err
		}
		if listener, err = net.Listen("tcp", ":7000"); err != nil {
			return err
		}
		taker, err = net.ListenPacket("udp", ":5000")
		return err
	}); err != nil {
		t.Fatal(err)
	}
	_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, 64<<20)
	_ = unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Usec: 100_000})
	stop, ended := make(chan struct{}), make(chan struct{})
	go func() { defer close(ended); f.read(fd, stop) }()
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() { _, _ = io.Copy(io.Discard, conn); _ = conn.Close() }()
		}
	}()
	t.Cleanup(func() {
		close(stop)
		<-ended
		_, _, _ = listener.Close(), taker.Close(), unix.Close(fd)
	})
	return f
}

func (f *far) read(fd int, stop chan struct{}) {
	frame := make([]byte, 70000)
	for {
		select {
		case <-stop:
			return
		default:
		}
		n, from, err := unix.Recvfrom(fd, frame, unix.MSG_TRUNC)
		if link, is := from.(*unix.SockaddrLinklayer); err != nil || n < 34 || !is || link.Pkttype == unix.PACKET_OUTGOING {
			continue
		}
		to, protocol := frame[33], frame[23]
		evil := to == ownAddress
		if protocol == unix.IPPROTO_UDP || protocol == unix.IPPROTO_UDPLITE || protocol == unix.IPPROTO_TCP {
			evil = evil || int(binary.BigEndian.Uint16(frame[36:])) >= attackerPorts
		}
		f.mu.Lock()
		if f.all[to] += n; evil {
			f.evils[to] += n
		}
		f.mu.Unlock()
	}
}

// counted returns the bytes so far.
func (f *far) counted() (all, evils [256]int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.all, f.evils
}
