// SPDX-License-Identifier: Apache-2.0

package station

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"weir/internal/child"
	"weir/internal/fault"
	"weir/kernel/probe"
	"weir/kernel/testutil"
)

func TestMain(m *testing.M) {
	child.Main(child.Parts{NearPart: Near})
	os.Exit(m.Run())
}

// serve runs a server on a loopback address during the test.
func serve(t *testing.T, address, token string) *Server {
	t.Helper()
	server, err := Listen(address, token)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- server.Serve(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return server
}

// transfer sends a flow over loopback and returns the received data.
func transfer(t *testing.T, address string, f Flow) Tally {
	t.Helper()
	server := serve(t, address, "secret")
	pair, err := Connect(t.Context(), Peer{Control: server.Addr(), Target: server.Addr(), Token: "secret"}, Place{}, f)
	if err != nil {
		t.Fatal(err)
	}
	defer pair.Close()
	got, err := pair.Transfer(t.Context(), 200*time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func TestWireOctetsAreHeadersAndPayload(t *testing.T) {
	if err := probe.IPv6(); err != nil {
		testutil.Need(t, "IPv6", err)
	}
	for _, test := range []struct {
		name, address string
		flow          Flow
		headers       []uint64 // with and without TCP's timestamps
	}{
		{"TCP IPv4", "127.0.0.1:0", Flow{Protocol: TCP, Connections: 2, Rate: 20e6}, []uint64{66, 54}},
		{"TCP IPv6", "[::1]:0", Flow{Protocol: TCP, Connections: 1, Rate: 20e6}, []uint64{86, 74}},
		{"TCP from the peer", "127.0.0.1:0", Flow{Protocol: TCP, Connections: 1, Rate: 20e6, Reverse: true}, []uint64{66, 54}},
		{"UDP IPv4", "127.0.0.1:0", Flow{Protocol: UDP, Connections: 1, Rate: 5e6}, []uint64{42}},
		{"UDP IPv6", "[::1]:0", Flow{Protocol: UDP, Connections: 1, Rate: 5e6}, []uint64{62}},
		{"UDP from the peer", "127.0.0.1:0", Flow{Protocol: UDP, Connections: 1, Rate: 5e6, Reverse: true}, []uint64{42}},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := transfer(t, test.address, test.flow)
			if got.Octets == 0 || got.Segments == 0 {
				t.Fatalf("nothing arrived: %+v", got)
			}
			fits := false
			for _, h := range test.headers {
				fits = fits || got.Wire == got.Octets+got.Segments*h
			}
			if !fits {
				t.Errorf("%+v: wire octets are not those of the payload and %v for each segment", got, test.headers)
			}
			if test.flow.Protocol == UDP && got.Octets != got.Segments*Payload {
				t.Errorf("%d octets in %d datagrams of %d", got.Octets, got.Segments, Payload)
			}
		})
	}
}

func TestMeasureCallsBothEdgesAndCountsWithinThem(t *testing.T) {
	server := serve(t, "127.0.0.1:0", "secret")
	pair, err := Connect(t.Context(), Peer{Control: server.Addr(), Target: server.Addr(), Token: "secret"}, Place{}, Flow{Protocol: TCP, Connections: 2, Rate: 10e6})
	if err != nil {
		t.Fatal(err)
	}
	defer pair.Close()
	edges := 0
	got, err := pair.Measure(t.Context(), 50*time.Millisecond, 100*time.Millisecond, func() error { edges++; return nil })
	if err != nil {
		t.Fatal(err)
	}
	if edges != 2 || got.Received.Octets == 0 || got.All.Octets <= got.Received.Octets || got.Received.At < 100*time.Millisecond {
		t.Errorf("%d edges, %+v", edges, got)
	}
}

// The reported congestion control is that of the sending socket at either end.
func TestTheSendersCongestionControlIsReported(t *testing.T) {
	for _, reverse := range []bool{false, true} {
		server := serve(t, "127.0.0.1:0", "secret")
		pair, err := Connect(t.Context(), Peer{Control: server.Addr(), Target: server.Addr(), Token: "secret"}, Place{},
			Flow{Protocol: TCP, Connections: 2, Rate: 1e6, Congestion: "reno", Reverse: reverse})
		if err != nil {
			t.Fatal(err)
		}
		got, err := pair.Measure(t.Context(), 0, 10*time.Millisecond, func() error { return nil })
		pair.Close()
		if err != nil || got.Congestion != "reno" {
			t.Errorf("reverse %t: %q, %v", reverse, got.Congestion, err)
		}
	}
}

// Marks require privilege, and yet the user owns the sockets.
func TestSocketsAreMarkedBeforeTheyConnectOrAfterwards(t *testing.T) {
	testutil.NeedRoot(t)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	at := listener.Addr().(*net.TCPAddr).AddrPort()
	user := uint32(4321)
	for _, network := range []string{"tcp", "udp"} {
		for _, late := range []bool{false, true} {
			c, err := Task{Target: at, User: &user, Mark: 0x17, Late: late}.open(network)
			if err != nil {
				t.Fatal(err)
			}
			raw, err := c.(syscall.Conn).SyscallConn()
			if err != nil {
				t.Fatal(err)
			}
			_ = raw.Control(func(fd uintptr) {
				if mark, err := unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_MARK); err != nil || mark != 0x17 {
					t.Errorf("%s, late %t: mark %#x, %v", network, late, mark, err)
				}
				var info unix.Stat_t
				if err := unix.Fstat(int(fd), &info); err != nil || (info.Uid == user) == late {
					t.Errorf("%s, late %t: the socket is user %d's, %v", network, late, info.Uid, err)
				}
			})
			_ = c.Close()
		}
	}
}

func TestAStrangerGetsNothing(t *testing.T) {
	server := serve(t, "127.0.0.1:0", "secret")
	_, err := Connect(t.Context(), Peer{Control: server.Addr(), Target: server.Addr(), Token: "guess"}, Place{}, Flow{Protocol: TCP, Connections: 1})
	if fault.Of(err) != fault.Testbed || !strings.Contains(err.Error(), "token") {
		t.Errorf("with a wrong token: %v", err)
	}
	for name, text := range map[string]string{
		"no JSON":             "GET / HTTP/1.1\r\n\r\n",
		"an endless line":     `{"format":"` + strings.Repeat("x", 1<<16),
		"an unknown session":  `{"format":"weir-prove-peer/2","kind":"data","session":"made up"}` + "\n",
		"another format":      `{"format":"weir-prove-peer/3","kind":"control","token":"secret"}` + "\n",
		"many connections":    `{"format":"weir-prove-peer/2","kind":"control","token":"secret","flow":{"connections":100000}}` + "\n",
		"UDP without a rate":  `{"format":"weir-prove-peer/2","kind":"control","token":"secret","flow":{"protocol":"udp","connections":1}}` + "\n",
		"an unknown protocol": `{"format":"weir-prove-peer/2","kind":"control","token":"secret","flow":{"protocol":"icmp","connections":1}}` + "\n",
	} {
		t.Run(name, func(t *testing.T) {
			c, err := net.Dial("tcp", server.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = c.Close() }()
			_, _ = c.Write([]byte(text))
			_ = c.SetReadDeadline(time.Now().Add(helloTime / 2))
			answer, err := io.ReadAll(c)
			if errors.Is(err, os.ErrDeadlineExceeded) {
				t.Error("the connection stays open")
			}
			var event Event
			if len(answer) > 0 && (json.Unmarshal(answer, &event) != nil || event.Problem == "" || event.Session != "") {
				t.Errorf("it was answered %q", answer)
			}
		})
	}
}

// A datagram that names no session gets no answer: otherwise the peer could reflect traffic.
func TestAnAnnouncementOfNoSessionIsNotAnswered(t *testing.T) {
	server := serve(t, "127.0.0.1:0", "secret")
	c, err := net.Dial("udp", server.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	for _, text := range []string{greeting, greeting + "made up", "x"} {
		if _, err := c.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	// The server answers in order: an answer to the first datagram would precede that to a session
	// that exists.
	id, _, err := server.open(Flow{Protocol: UDP, Connections: 1, Rate: 1e6})
	if err != nil {
		t.Fatal(err)
	}
	server.mu.Lock()
	nonce := server.sessions[id].nonce
	server.mu.Unlock()
	if _, err := c.Write([]byte(greeting + id + " " + nonce)); err != nil {
		t.Fatal(err)
	}
	buffer := make([]byte, 64)
	if n, err := c.Read(buffer); err != nil || string(buffer[:n]) != greeting {
		t.Fatalf("%q, %v", buffer[:n], err)
	}
	_ = c.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
	if n, err := c.Read(buffer); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("a second answer: %q, %v", buffer[:n], err)
	}
}

func TestListenRefusesWhatNobodyMeant(t *testing.T) {
	for _, address := range []string{"0.0.0.0:0", "127.0.0.1:0", "nowhere", "192.0.2.1", "192.0.2.1:x"} {
		if server, err := Listen(address, ""); fault.Of(err) != fault.Usage {
			t.Errorf("%s: %v, %v", address, server, err)
		}
	}
}

func TestResolve(t *testing.T) {
	for text, want := range map[string]string{"192.0.2.9:5201": "192.0.2.9:5201", "[2001:db8::9]:7": "[2001:db8::9]:7", "": "", "a": "", "192.0.2.9:0": "", "192.0.2.9:70000": ""} {
		got, err := Resolve(t.Context(), text, "")
		if want == "" {
			if fault.Of(err) != fault.Usage {
				t.Errorf("%q: %v, %v", text, got, err)
			}
		} else if err != nil || got.Target != netip.MustParseAddrPort(want) {
			t.Errorf("%q: %v, %v", text, got, err)
		}
	}
}

// An announcement with a spoofed source, even of a session, causes no traffic beyond one nonce.
func TestASpoofedAnnouncementIsAnsweredByANonceAlone(t *testing.T) {
	server := serve(t, "127.0.0.1:0", "secret")
	id, one, err := server.open(Flow{Protocol: UDP, Connections: 1, Rate: 20e6, Reverse: true})
	if err != nil {
		t.Fatal(err)
	}
	defer server.forget(id, one)
	victim, err := net.Dial("udp", server.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = victim.Close() }()
	announce := func(text string) string {
		t.Helper()
		if _, err := victim.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
		if err := victim.SetReadDeadline(time.Now().Add(5 * time.Second)); err != nil {
			t.Fatal(err)
		}
		answer := make([]byte, 2048)
		n, err := victim.Read(answer)
		if err != nil {
			t.Fatal(err)
		}
		return string(answer[:n])
	}
	first := announce(greeting + id)
	nonce, is := strings.CutPrefix(first, challenge)
	if !is || len(first) > len(greeting+id) {
		t.Errorf("the announcement is answered by %q", first)
	}
	if second := announce(greeting + id + " " + strings.Repeat("A", len(nonce))); second != first {
		t.Errorf("a wrong nonce is answered by %q", second)
	}
	server.mu.Lock()
	joined := one.data != nil
	server.mu.Unlock()
	if joined {
		t.Error("the sender takes part")
	}
	if last := announce(greeting + id + " " + nonce); last != greeting {
		t.Errorf("the nonce is answered by %q", last)
	}
}
