// SPDX-License-Identifier: Apache-2.0

package server

import (
	"net"
	"net/netip"
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

func TestConnectionsOfAllClientsAreBounded(t *testing.T) {
	c := newConnections(2, 3)
	var last func()
	for i, want := range []struct {
		client string
		taken  bool
	}{{"192.0.2.1", true}, {"192.0.2.1", true}, {"192.0.2.1", false}, {"192.0.2.2", true}, {"192.0.2.3", false}} {
		release := c.take(netip.MustParseAddr(want.client))
		if (release != nil) != want.taken {
			t.Errorf("connection %d of %s: taken is %v", i, want.client, release != nil)
		}
		if release != nil {
			last = release
		}
	}
	last()
	last() // has no effect
	if c.take(netip.MustParseAddr("192.0.2.3")) == nil || c.take(netip.MustParseAddr("192.0.2.4")) != nil {
		t.Error("after one of three ended, not exactly one has a place")
	}
}
