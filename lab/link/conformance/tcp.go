// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"io"
	"net"
	"net/netip"
	"testing"
	"time"

	"weir/internal/kernel/netns"
	"weir/internal/kernel/tc"
	"weir/lab/link"
)

// tcpSegments sends TCP through the link: the hosts' super-packets must arrive at the link as
// single frames.
func tcpSegments(t *testing.T, b *bench, d link.Direction) {
	carrying := b.carry(t, d, d)
	for _, host := range []struct {
		ns      *netns.Namespace
		dev     string
		address string
	}{{b.left, hostA, "198.51.100.1/24"}, {b.right, hostB, "198.51.100.2/24"}} {
		must(t, connect(t, host.ns).AddAddress(host.dev, netip.MustParsePrefix(host.address)))
	}
	const octets = 2 << 20
	var listener net.Listener
	must(t, b.right.Do(func() (err error) {
		listener, err = net.Listen("tcp4", "198.51.100.2:0")
		return err
	}))
	defer func() { _ = listener.Close() }()
	received := make(chan int64, 1)
	go func() {
		conn, err := listener.Accept()
		if err != nil {
			received <- 0
			return
		}
		n, _ := io.Copy(io.Discard, conn)
		_ = conn.Close()
		received <- n
	}()
	var conn net.Conn
	must(t, b.left.Do(func() (err error) {
		conn, err = net.DialTimeout("tcp4", listener.Addr().String(), 10*time.Second)
		return err
	}))
	_, err := conn.Write(make([]byte, octets))
	must(t, err)
	must(t, conn.Close())
	if n := <-received; n != octets {
		t.Fatalf("%d octets arrived of %d", n, octets)
	}
	s := status(t, carrying)
	if s.Forward.Received < octets/1460 {
		t.Errorf("%d octets of payload came in %d frames: some were larger than an MTU", octets, s.Forward.Received)
	}
	if s.Forward.SentBytes > 1514*s.Forward.Sent {
		t.Errorf("%d frames have %d octets: some are larger than an MTU", s.Forward.Sent, s.Forward.SentBytes)
	}
	if s.Forward.Overruns+s.Reverse.Overruns > 0 {
		t.Errorf("%d frames overran", s.Forward.Overruns+s.Reverse.Overruns)
	}
}

// qdiscs lists the kinds of queueing disciplines on one of the cable's ends, but for the kernel's
// own default.
func qdiscs(t *testing.T, b *bench, dev string) (kinds []string) {
	t.Helper()
	conn, err := tc.Open(b.ns)
	must(t, err)
	defer conn.Close()
	all, err := conn.List(dev)
	must(t, err)
	for _, q := range all {
		if q.Kind != "noqueue" {
			kinds = append(kinds, q.Kind)
		}
	}
	return kinds
}
