// SPDX-License-Identifier: Apache-2.0

package server

import (
	"net"
	"testing"
)

// TCP_INFO of a multipath connection describes its first subflow alone.
func TestAMultipathClientGetsASinglePath(t *testing.T) {
	l, err := listen("--listen", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	var dialer net.Dialer
	dialer.SetMultipathTCP(true)
	client, err := dialer.DialContext(t.Context(), "tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = client.Close() }()
	conn, err := l.AcceptTCP()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	if multipath, err := conn.MultipathTCP(); err != nil || multipath {
		t.Errorf("the accepted connection has several paths: %v, %v", multipath, err)
	}
}
