// SPDX-License-Identifier: Apache-2.0

package testutil

import (
	"net"
	"testing"
)

// TCPPair returns both ends of a TCP connection on loopback, which has buffers, unlike a pipe. They
// are closed after the test.
func TCPPair(t testing.TB) (a, b net.Conn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	if a, err = net.Dial("tcp", l.Addr().String()); err != nil {
		t.Fatal(err)
	}
	if b, err = l.Accept(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = a.Close(), b.Close() })
	return a, b
}
