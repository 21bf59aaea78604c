// SPDX-License-Identifier: Apache-2.0

package latency

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"testing"
	"time"

	"weir/measure/record"
)

// answers serves the two requests for one address.
func (s *site) answers(t *testing.T) url.URL {
	t.Helper()
	client := netip.MustParseAddr("127.0.0.1")
	mux := http.NewServeMux()
	mux.HandleFunc(AuthorizePath, func(w http.ResponseWriter, r *http.Request) {
		first, err := s.Authorize(r.URL.Query().Get("mid"), client, "uuid")
		if err != nil {
			t.Error(err)
		}
		_ = json.NewEncoder(w).Encode(first)
	})
	mux.HandleFunc(ResultPath, func(w http.ResponseWriter, r *http.Request) {
		summary, err := s.Result(r.Context(), r.URL.Query().Get("mid"), client)
		if err != nil {
			t.Error(err)
		}
		_ = json.NewEncoder(w).Encode(summary)
	})
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	base, err := url.Parse(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	return *base
}

func TestTheClientEchoes(t *testing.T) {
	s := start(t, "127.0.0.1:0", func(o *Options) { o.Duration, o.Grace = time.Second, time.Second })
	p := s.peer(t, "127.0.0.1", "127.0.0.1")
	last := 0
	got, err := Measure(t.Context(), ClientTest{
		HTTP: http.DefaultClient, Base: s.answers(t), UDP: p.UDPConn, ID: "m", Duration: time.Second, Query: url.Values{"client_name": {"x"}},
		Progress: func(received int, _ time.Duration) { last = received },
	})
	if err != nil || got.PacketsReceived == 0 || last == 0 || got.ID != "m" {
		t.Errorf("%+v, %v, %d echoes", got, err, last)
	}
}

func TestTheClientEchoesOnlyItsTest(t *testing.T) {
	server, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = server.Close() }()
	c, err := net.Dial("udp", server.LocalAddr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	ctx, stop := context.WithCancel(t.Context())
	client := ClientTest{UDP: c, ID: "m", Duration: time.Minute}
	done := make(chan error, 1)
	go func() { done <- client.echo(ctx, Packet{Type: typeKickoff, ID: "m"}) }()
	buffer := make([]byte, 2048)
	_, from, err := server.ReadFrom(buffer)
	if err != nil {
		t.Fatal(err)
	}
	good := `{"Type":"s2c","ID":"m","Seq":7}`
	for _, text := range []string{kickoff, `{"Type":"s2c","ID":"other","Seq":0}`, `{"Type":"s2c","ID":"m","Seq":-1}`, "x", good} {
		if _, err := server.WriteTo([]byte(text), from); err != nil {
			t.Fatal(err)
		}
	}
	_ = server.SetReadDeadline(time.Now().Add(time.Minute))
	if n, _, err := server.ReadFrom(buffer); err != nil || string(buffer[:n]) != good {
		t.Errorf("echoed %q, %v", buffer[:n], err)
	}
	stop()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// The server's time begins with the first datagram that arrives.
func TestTheClientEchoesUntilTheServersEnd(t *testing.T) {
	t.Parallel() // it waits most of the time
	server, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = server.Close() }()
	c, err := net.Dial("udp", server.LocalAddr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	client := ClientTest{UDP: c, ID: "m", Duration: 1500 * time.Millisecond}
	done := make(chan error, 1)
	former := time.Now().Add(client.Duration + Grace) // the end without a lost datagram
	go func() { done <- client.echo(t.Context(), Packet{Type: typeKickoff, ID: "m"}) }()
	buffer := make([]byte, 2048)
	var from net.Addr
	for range 3 { // two are lost
		if _, from, err = server.ReadFrom(buffer); err != nil {
			t.Fatal(err)
		}
	}
	probe := func(seq int) {
		if _, err := server.WriteTo(fmt.Appendf(nil, `{"Type":"s2c","ID":"m","Seq":%d}`, seq), from); err != nil {
			t.Fatal(err)
		}
	}
	probe(0)
	time.Sleep(time.Until(former.Add(100 * time.Millisecond)))
	probe(1)
	if err := <-done; err != nil {
		t.Error(err)
	}
	last := ""
	for range 2 {
		_ = server.SetReadDeadline(time.Now().Add(time.Second))
		if n, _, err := server.ReadFrom(buffer); err == nil {
			last = string(buffer[:n])
		}
	}
	if last != `{"Type":"s2c","ID":"m","Seq":1}` {
		t.Errorf("the last echo is %q", last)
	}
}

func TestResultsThatContradictThemselves(t *testing.T) {
	for reason, s := range map[string]record.LatencySummary{
		"-1 µs":       {RoundTrips: []record.RoundTrip{{RTT: -1}}, PacketsSent: 1, PacketsReceived: 1},
		"2 received":  {RoundTrips: []record.RoundTrip{{RTT: 1}}, PacketsSent: 1, PacketsReceived: 2},
		"3 datagrams": {RoundTrips: []record.RoundTrip{{Lost: true}}, PacketsSent: 3},
	} {
		if err := verify(s); err == nil || !strings.Contains(err.Error(), reason) {
			t.Errorf("%s: %v", reason, err)
		}
	}
}
