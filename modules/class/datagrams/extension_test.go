// SPDX-License-Identifier: Apache-2.0

package datagrams

import (
	"net"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"weir/internal/dscp"
	"weir/kernel/testutil"
)

// padded gives packets of a socket a Destination Options header with padding.
func padded(_, _ string, c syscall.RawConn) error {
	var failed error
	err := c.Control(func(fd uintptr) {
		failed = unix.SetsockoptString(int(fd), unix.IPPROTO_IPV6, unix.IPV6_DSTOPTS, "\x00\x00\x01\x04\x00\x00\x00\x00")
	})
	if err != nil {
		return err
	}
	return failed
}

// TestTCPBehindExtensionHeadersIsNotHeld connects by TCP with an extension header, like that of BIG
// TCP packets, and sends a datagram with it, which is held.
func TestTCPBehindExtensionHeadersIsNotHeld(t *testing.T) {
	testutil.NeedRoot(t)
	here, there := pair(t)
	const address = "[fd00:9::2]:4711"
	h, err := load(dscp.LowEffort)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = h.detach() }()
	var listener net.Listener
	if err := there.Do(func() (err error) {
		listener, err = net.Listen("tcp", address)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	if err := h.attach(ownGroup(t)); err != nil {
		t.Fatal(err)
	}
	send := func(network string) Counts {
		t.Helper()
		var client net.Conn
		dialer := net.Dialer{Control: padded, Timeout: 10 * time.Second}
		err := here.Do(func() (err error) {
			client, err = dialer.Dial(network, address)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = client.Close() }()
		if _, err := client.Write(make([]byte, 1000)); err != nil {
			t.Fatal(err)
		}
		counts, err := h.Counts()
		if err != nil {
			t.Fatal(err)
		}
		return counts
	}
	if counts := send("tcp"); counts.Octets != 0 || counts.Dropped != 0 {
		t.Errorf("TCP was held as datagrams: %+v", counts)
	}
	if counts := send("udp"); counts.Octets != 1056 {
		t.Errorf("want 1056 octets of UDP with its headers: %+v", counts)
	}
}
