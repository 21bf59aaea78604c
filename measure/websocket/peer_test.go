// SPDX-License-Identifier: Apache-2.0

package websocket_test

import (
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	gorilla "github.com/gorilla/websocket"

	"weir/measure/websocket"
)

// The peer of these tests is an independent implementation of RFC 6455.

var limits = websocket.Limits{Text: 1000, Binary: 1 << 24, Messages: 100}

// dialPeer connects this package's client to a peer's server that runs serve.
func dialPeer(t *testing.T, serve func(*gorilla.Conn)) *websocket.Conn {
	t.Helper()
	upgrader := gorilla.Upgrader{Subprotocols: []string{"test.v1"}}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c, err := upgrader.Upgrade(w, r, nil)
		if err != nil {
			t.Error(err)
			return
		}
		defer func() { _ = c.Close() }()
		serve(c)
	}))
	t.Cleanup(server.Close)
	u, _ := url.Parse(server.URL + "/path?a=b")
	stream, err := net.Dial("tcp", u.Host)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = stream.Close() })
	c, err := websocket.Dial(t.Context(), stream, u, "test.v1", "weir/test", limits)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// acceptPeer connects a peer's client to this package's server that runs serve.
func acceptPeer(t *testing.T, serve func(*websocket.Conn)) *gorilla.Conn {
	t.Helper()
	done := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer close(done)
		if reason := websocket.CheckUpgrade(r, "test.v1"); reason != "" {
			t.Error(reason)
			return
		}
		c, err := websocket.Upgrade(w, r, "test.v1", limits)
		if err != nil {
			t.Error(err)
			return
		}
		defer func() { _ = c.Close() }()
		serve(c)
	}))
	t.Cleanup(func() { <-done; server.Close() })
	dialer := gorilla.Dialer{Subprotocols: []string{"test.v1"}}
	c, _, err := dialer.Dial("ws"+strings.TrimPrefix(server.URL, "http"), nil)
	if err != nil {
		close(done)
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func TestBulkOfAClientReachesThePeer(t *testing.T) {
	got := make(chan int, 20)
	c := dialPeer(t, func(p *gorilla.Conn) {
		defer close(got)
		for {
			kind, b, err := p.ReadMessage() // unmasks
			if err != nil {
				return
			}
			if kind == gorilla.BinaryMessage {
				got <- len(b)
			}
		}
	})
	bulk := c.Bulk()
	for _, n := range []struct{ size, count int }{{1 << 10, 1}, {1 << 13, 2}, {1 << 20, 4}, {1 << 20, 4}} {
		if err := bulk.Write(n.size, n.count); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.WriteClose(websocket.Normal, "done"); err != nil {
		t.Fatal(err)
	}
	var sum, messages int
	for n := range got {
		sum, messages = sum+n, messages+1
	}
	if want := 1<<10 + 2<<13 + 8<<20; sum != want || messages != 11 {
		t.Errorf("%d bytes in %d messages, want %d in 11", sum, messages, want)
	}
}

func TestMessagesOfAPeersServer(t *testing.T) {
	echoed := make(chan string, 1)
	c := dialPeer(t, func(p *gorilla.Conn) {
		p.SetPongHandler(func(data string) error { echoed <- data; return nil })
		_ = p.WriteMessage(gorilla.TextMessage, []byte("hello"))
		_ = p.WriteMessage(gorilla.BinaryMessage, make([]byte, 3<<20))
		_ = p.WriteMessage(gorilla.PingMessage, []byte("1234"))
		_ = p.WriteMessage(gorilla.CloseMessage, gorilla.FormatCloseMessage(1000, "Done sending"))
		_, _, _ = p.ReadMessage() // the Pong, then the Close
	})
	for i, want := range []websocket.Message{{Opcode: websocket.Text}, {Opcode: websocket.Binary}, {Opcode: websocket.Ping}, {Opcode: websocket.Close, Status: 1000}} {
		m, err := c.Next()
		if err != nil || m.Opcode != want.Opcode || m.Status != want.Status {
			t.Fatalf("message %d: %+v, %v", i, m, err)
		}
	}
	if want := uint64(5 + 3<<20); c.Received() != want {
		t.Errorf("received %d bytes, want %d", c.Received(), want)
	}
	if got := <-echoed; got != "1234" {
		t.Errorf("the Pong has %q", got)
	}
	if err := c.WriteClose(websocket.Normal, ""); err != nil {
		t.Error(err)
	}
}

func TestMessagesOfAPeersClient(t *testing.T) {
	ended := make(chan uint64, 1)
	p := acceptPeer(t, func(c *websocket.Conn) {
		_ = c.Write(websocket.Text, []byte("hello"))
		_ = c.Bulk().Write(1<<16, 3)
		_ = c.Write(websocket.Ping, []byte("5678"))
		for {
			m, err := c.Next()
			if err != nil || m.Opcode == websocket.Close {
				ended <- c.Received()
				_ = c.WriteClose(websocket.Normal, strings.Repeat("long ", 40))
				return
			}
		}
	})
	pinged := make(chan string, 1)
	p.SetPingHandler(func(data string) error {
		pinged <- data
		_ = p.WriteMessage(gorilla.BinaryMessage, make([]byte, 5<<20))
		return p.WriteMessage(gorilla.CloseMessage, gorilla.FormatCloseMessage(1000, ""))
	})
	var sizes []int
	var err error
	for err == nil {
		var b []byte
		if _, b, err = p.ReadMessage(); err == nil {
			sizes = append(sizes, len(b))
		}
	}
	if len(sizes) != 4 || sizes[0] != 5 || sizes[3] != 1<<16 {
		t.Errorf("messages of %v bytes", sizes)
	}
	if got := <-pinged; got != "5678" {
		t.Errorf("Ping %q", got)
	}
	if got := <-ended; got != 5<<20 {
		t.Errorf("received %d bytes, want %d", got, 5<<20)
	}
	var closed *gorilla.CloseError
	if !errors.As(err, &closed) || closed.Code != 1000 || len(closed.Text) != 123 {
		t.Errorf("the peer ended with %v", err)
	}
}

func TestARefusedHandshakeHasItsReason(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "7")
		http.Error(w, "busy", http.StatusTooManyRequests)
	}))
	defer server.Close()
	u, _ := url.Parse(server.URL)
	stream, err := net.Dial("tcp", u.Host)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = stream.Close() }()
	_, err = websocket.Dial(t.Context(), stream, u, "test.v1", "weir/test", limits)
	var refused *websocket.Refused
	if !errors.As(err, &refused) || refused.Status != 429 || refused.RetryAfter != "7" || refused.Body != "busy\n" {
		t.Errorf("%+v", err)
	}
}

func TestRequestsThatAreNoHandshake(t *testing.T) {
	good := http.Header{
		"Connection": {"keep-alive, Upgrade"}, "Upgrade": {"websocket"}, "Sec-Websocket-Version": {"13"},
		"Sec-Websocket-Key": {"dGhlIHNhbXBsZSBub25jZQ=="}, "Sec-Websocket-Protocol": {"other, test.v1"},
	}
	check := func(method string, header http.Header) string {
		return websocket.CheckUpgrade(&http.Request{Method: method, Header: header}, "test.v1")
	}
	if reason := check(http.MethodGet, good); reason != "" {
		t.Errorf("a handshake is rejected: %s", reason)
	}
	if check(http.MethodPost, good) == "" {
		t.Error("POST is accepted")
	}
	for name, value := range map[string]string{
		"Connection": "close", "Upgrade": "h2c", "Sec-WebSocket-Version": "8", "Sec-WebSocket-Key": "c2hvcnQ=", "Sec-WebSocket-Protocol": "test.v2",
	} {
		for _, v := range []string{value, ""} {
			header := good.Clone()
			header.Set(name, v)
			if check(http.MethodGet, header) == "" {
				t.Errorf("%s: %q is accepted", name, v)
			}
		}
	}
}
