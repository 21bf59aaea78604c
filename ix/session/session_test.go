// SPDX-License-Identifier: Apache-2.0

package session

import (
	"errors"
	"io"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"weir/ix/wire"
	"weir/kernel/testutil"
)

func openOf(as uint32, id string) wire.Open {
	return wire.Open{AS: as, HoldTime: 90, ID: netip.MustParseAddr(id), Families: []wire.Family{wire.IPv4Unicast}, AS4: true, RouteRefresh: true}
}

const patience = time.Minute

type result struct {
	s   *Session
	err error
}

func opened(conn net.Conn, c Config) <-chan result {
	done := make(chan result, 1)
	go func() {
		s, err := Open(conn, c)
		done <- result{s, err}
	}()
	return done
}

func established(t *testing.T, left, right Config) (a, b *Session) {
	t.Helper()
	c, d := testutil.TCPPair(t)
	one, two := opened(c, left), opened(d, right)
	x, y := <-one, <-two
	if x.err != nil || y.err != nil {
		t.Fatal(x.err, y.err)
	}
	return x.s, y.s
}

func TestASession(t *testing.T) {
	left, right := openOf(64500, "10.0.0.1"), openOf(64501, "10.0.0.2")
	right.HoldTime = 9
	left.ExtendedMessages, right.ExtendedMessages = true, true
	a, b := established(t, Config{Open: left, PeerAS: 64501}, Config{Open: right, PeerAS: 64500})
	if a.Hold() != 9*time.Second || a.KeepaliveTime() != 3*time.Second || b.MaxMessage() != wire.MaxExtendedMessage || a.Peer.AS != 64501 {
		t.Errorf("hold %v, maximum %d, peer AS %d", a.Hold(), b.MaxMessage(), a.Peer.AS)
	}
	messages := wire.AppendRefresh(wire.AppendEndOfRIB(nil, wire.IPv4Unicast), wire.IPv4Unicast, wire.RefreshRequest)
	if err := a.Write(messages); err != nil {
		t.Fatal(err)
	}
	for _, want := range []uint8{wire.TypeUpdate, wire.TypeRouteRefresh} {
		if kind, _, err := b.Next(); err != nil || kind != want {
			t.Errorf("type %d, %v; want %d", kind, err, want)
		}
	}
	a.End(wire.Shutdown("back at\n14:00"))
	_, _, err := b.Next()
	var end *wire.Notification
	if !errors.As(err, &end) || end.Text() != "back at14:00" || !strings.Contains(err.Error(), "administrative shutdown") {
		t.Errorf("end: %v", err)
	}
}

// A faulty OPEN is answered with the NOTIFICATION of RFC 4271, section 6.
func TestRejectedOpens(t *testing.T) {
	refuse := &wire.Notification{Code: wire.CodeCease, Subcode: wire.CeaseCollision}
	for name, c := range map[string]struct {
		own       Config
		open      wire.Open
		code, sub uint8
	}{
		"wrong AS": {Config{Open: openOf(64500, "10.0.0.1"), PeerAS: 64501}, openOf(64502, "10.0.0.2"), 2, 2},
		"refused": {Config{Open: openOf(64500, "10.0.0.1"), PeerAS: 64501, Accept: func(*wire.Open) error { return refuse }}, openOf(64501, "10.0.0.2"),
			wire.CodeCease, wire.CeaseCollision},
	} {
		a, b := testutil.TCPPair(t)
		left, right := opened(a, c.own), opened(b, Config{Open: c.open, PeerAS: 64500})
		if r := <-left; r.err == nil {
			t.Errorf("%s: accepted", name)
		}
		r := <-right
		var n *wire.Notification
		if !errors.As(r.err, &n) || n.Code != c.code || n.Subcode != c.sub {
			t.Errorf("%s: the peer gets %v", name, r.err)
		}
	}
}

// Garbage, messages in a wrong state and a silent peer end the session with a NOTIFICATION.
func TestFaultyPeers(t *testing.T) {
	own := openOf(64500, "10.0.0.1")
	peer, twin := openOf(64501, "10.0.0.2"), openOf(64500, "10.0.0.1")
	for name, c := range map[string]struct {
		send      []byte
		code, sub uint8
	}{
		"own identifier":   {wire.AppendOpen(nil, &twin), 2, 3},
		"no BGP":           {[]byte("GET / HTTP/1.1\r\nHost: x\r\n\r\n"), 1, 1},
		"KEEPALIVE first":  {wire.AppendKeepalive(nil), wire.CodeState, 1},
		"UPDATE in OPEN":   {wire.AppendEndOfRIB(wire.AppendOpen(nil, &peer), wire.IPv4Unicast), wire.CodeState, 2},
		"a second OPEN":    {wire.AppendOpen(wire.AppendKeepalive(wire.AppendOpen(nil, &peer)), &peer), wire.CodeState, 3},
		"silence":          {nil, wire.CodeHoldTimer, 0},
		"half of a header": {wire.AppendKeepalive(nil)[:10], wire.CodeHoldTimer, 0},
	} {
		a, b := testutil.TCPPair(t)
		as := peer.AS
		if name == "own identifier" {
			as = own.AS
		}
		wait := patience
		if c.code == wire.CodeHoldTimer {
			wait = 50 * time.Millisecond
		}
		if _, err := b.Write(c.send); err != nil {
			t.Fatal(err)
		}
		done := make(chan error, 1)
		go func() {
			s, err := Open(a, Config{Open: own, PeerAS: as, OpenWait: wait})
			if err == nil {
				_, _, err = s.Next()
			}
			done <- err
		}()
		if err := <-done; err == nil {
			t.Errorf("%s: no error", name)
		}
		all, _ := io.ReadAll(b)
		var last []byte
		for len(all) >= wire.HeaderSize {
			_, size, err := wire.ParseHeader(all, wire.MaxMessage)
			if err != nil || size > len(all) {
				t.Fatalf("%s: %v", name, err)
			}
			last, all = all[:size], all[size:]
		}
		if last == nil || last[18] != wire.TypeNotification || last[19] != c.code || last[20] != c.sub {
			t.Errorf("%s: the last message is % x, want a NOTIFICATION %d/%d", name, last, c.code, c.sub)
		}
	}
}

// A peer that reads nothing ends by the send hold timer, and a NOTIFICATION waits for nobody.
func TestSendHold(t *testing.T) {
	a, b := established(t, Config{Open: openOf(64500, "10.0.0.1"), PeerAS: 64501, SendHold: 50 * time.Millisecond}, Config{Open: openOf(64501, "10.0.0.2"), PeerAS: 64500})
	_ = b
	block := make([]byte, 1<<20)
	var err error
	for range 1000 {
		if err = a.Write(block); err != nil {
			break
		}
	}
	if !errors.Is(err, ErrSendHold) {
		t.Errorf("error %v", err)
	}
	a.End(&wire.Notification{Code: wire.CodeSendHoldTimer})
}

// FuzzPeer gives a session arbitrary messages of the peer.
func FuzzPeer(f *testing.F) {
	peer := openOf(64501, "10.0.0.2")
	peer.PathsLimits = []wire.PathsLimit{{Family: wire.IPv4Unicast, Limit: 3}}
	good := wire.AppendKeepalive(wire.AppendOpen(nil, &peer))
	f.Add(good)
	f.Add(wire.AppendEndOfRIB(good, wire.IPv4Unicast))
	f.Add(wire.AppendRefresh(good, wire.IPv6Unicast, 0))
	f.Add(wire.Shutdown("text").Append(good))
	f.Fuzz(func(t *testing.T, stream []byte) {
		conn := &recorded{in: stream}
		s, err := Open(conn, Config{Open: openOf(64500, "10.0.0.1"), PeerAS: 64501})
		for err == nil {
			s.Ready()
			var kind uint8
			var body []byte
			if kind, body, err = s.Next(); err == nil && kind == wire.TypeUpdate {
				_, _ = wire.ParseUpdate(body, wire.Coding{AS4: true})
			}
			if err == nil && kind == wire.TypeRouteRefresh {
				_, _, _ = wire.ParseRefresh(body)
			}
		}
		_ = err.Error()
		if !conn.closed {
			t.Error("the connection is open after an error")
		}
	})
}

// recorded is a connection with a prepared input.
type recorded struct {
	net.Conn
	in     []byte
	closed bool
}

func (r *recorded) Read(p []byte) (int, error) {
	if len(r.in) == 0 {
		return 0, io.EOF
	}
	n := copy(p, r.in)
	r.in = r.in[n:]
	return n, nil
}

func (r *recorded) Write(p []byte) (int, error)      { return len(p), nil }
func (r *recorded) Close() error                     { r.closed = true; return nil }
func (r *recorded) SetReadDeadline(time.Time) error  { return nil }
func (r *recorded) SetWriteDeadline(time.Time) error { return nil }
