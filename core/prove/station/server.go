// SPDX-License-Identifier: Apache-2.0

package station

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"weir/internal/fault"
)

const (
	format   = "weir-prove-peer/2"
	greeting = "weir-prove-peer/2 " // begins a UDP announcement, which names the session, and answers one that is believed

	challenge = "weir-prove-nonce " // answers an announcement from an unverified address

	kindControl = "control"
	kindData    = "data"

	helloTime = 10 * time.Second
	// idleTime ends a session without commands from its client: no measurement is longer.
	idleTime = time.Hour
	// maxSessions limits the number of sessions, in case a client leaks them. Clients without the
	// token cannot create any.
	maxSessions    = 32
	maxConnections = 64
)

// hello is the first message on every TCP connection: a control connection names the flow and has
// the token, a data connection names the session.
type hello struct {
	Format  string `json:"format"`
	Kind    string `json:"kind"`
	Token   string `json:"token,omitempty"`
	Session string `json:"session,omitempty"`
	Flow    Flow   `json:"flow,omitzero"`
}

// Server creates far stations for clients with its token. It sends only to the other end of a
// connection that names a session, which the server reveals only to such a client, or to the source
// of a UDP announcement with the nonce that was sent to that address. An announcement with a
// spoofed source thus causes one datagram, no longer than the announcement. It is safe for
// concurrent use.
type Server struct {
	token string
	tcp   *net.TCPListener
	udp   *net.UDPConn
	owner int // of accepted sockets; -1 leaves them

	mu       sync.Mutex // guards the maps
	sessions map[string]*session
	remotes  map[netip.AddrPort]*session // of UDP clients
}

// session is the far end of one flow.
type session struct {
	flow   Flow
	conns  chan *net.TCPConn
	joined chan netip.AddrPort // the UDP client, once
	nonce  string              // required from the UDP client
	remote netip.AddrPort
	data   *datagrams // set under the server's lock after the client has joined
}

// Listen opens a server on a TCP and a UDP port of the same number.
func Listen(address, token string) (*Server, error) {
	at, err := netip.ParseAddrPort(address)
	if err != nil {
		return nil, fault.New(fault.Usage, "write an address and a port, as in 192.0.2.1:5201 or [2001:db8::1]:5201", "listen on %q: %w", address, err)
	}
	if token == "" {
		return nil, fault.New(fault.Usage, "give one that both ends know", "listen on %s without a token", at)
	}
	network := "tcp"
	if at.Addr().Is4() {
		network = "tcp4"
	}
	var last error
	for range 8 { // with port 0, the TCP port may be in use for UDP
		tcp, err := listenTCP(network, at)
		if err != nil {
			return nil, fault.Wrap(fmt.Errorf("listen: %w", err), fault.Failed, "name an address of this host and a free port")
		}
		port := uint16(tcp.Addr().(*net.TCPAddr).Port)
		udp, err := net.ListenUDP("udp"+network[3:], net.UDPAddrFromAddrPort(netip.AddrPortFrom(at.Addr(), port)))
		if err == nil {
			if err := errors.Join(udp.SetReadBuffer(receiveBuffer), wantInformation(udp), wantClass(udp), wantTime(udp), wantClass(tcp)); err != nil {
				return nil, errors.Join(err, tcp.Close(), udp.Close())
			}
			return &Server{token: token, tcp: tcp, udp: udp, owner: -1, sessions: map[string]*session{}, remotes: map[netip.AddrPort]*session{}}, nil
		}
		_ = tcp.Close()
		if last = err; at.Port() != 0 {
			break
		}
	}
	return nil, fault.Wrap(fmt.Errorf("listen: %w", last), fault.Failed, "name an address of this host and a port that is free for UDP too")
}

// listenTCP disables MPTCP: MPTCP sockets do not report the class of received packets.
func listenTCP(network string, at netip.AddrPort) (*net.TCPListener, error) {
	var config net.ListenConfig
	config.SetMultipathTCP(false)
	listener, err := config.Listen(context.Background(), network, at.String())
	if err != nil {
		return nil, err
	}
	return listener.(*net.TCPListener), nil
}

// Addr returns the address of the server.
func (s *Server) Addr() netip.AddrPort { return s.tcp.Addr().(*net.TCPAddr).AddrPort() }

// Serve serves until ctx ends.
func (s *Server) Serve(ctx context.Context) error {
	work, ctx := errgroup.WithContext(ctx)
	defer context.AfterFunc(ctx, func() { _, _ = s.tcp.Close(), s.udp.Close() })()
	work.Go(s.receive)
	work.Go(func() error {
		for {
			c, err := s.tcp.AcceptTCP()
			if err != nil {
				return fmt.Errorf("accept: %w", err)
			}
			if s.owner >= 0 {
				_ = chown(c, s.owner) // a connection that has ended has no owner
			}
			go s.greet(ctx, c)
		}
	})
	err := work.Wait()
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

// greet reads the hello of a connection and assigns it; it closes a connection without the token.
func (s *Server) greet(ctx context.Context, c *net.TCPConn) {
	_ = c.SetReadDeadline(time.Now().Add(helloTime))
	var h hello
	// A client without the token must not block the server with an endless line.
	limited := &bounded{from: c, left: 4096}
	decoder := json.NewDecoder(limited)
	if err := decoder.Decode(&h); err != nil || h.Format != format {
		_ = c.Close()
		return
	}
	limited.left = -1
	if h.Kind == kindControl {
		_ = c.SetReadDeadline(time.Now().Add(idleTime))
		if err := s.control(ctx, c, decoder, h); err != nil {
			_ = json.NewEncoder(c).Encode(Event{Event: "problem", Problem: err.Error()})
		}
		_ = c.Close()
		return
	}
	_ = c.SetReadDeadline(time.Time{})
	s.mu.Lock()
	have := s.sessions[h.Session]
	s.mu.Unlock()
	if have == nil || h.Kind != kindData {
		_ = c.Close()
		return
	}
	select {
	case have.conns <- c:
	default:
		_ = c.Close() // more connections than the flow has
	}
}

// control serves one flow, from the client's hello to its end.
func (s *Server) control(ctx context.Context, c *net.TCPConn, commands *json.Decoder, h hello) error {
	if subtle.ConstantTimeCompare([]byte(h.Token), []byte(s.token)) != 1 {
		return errors.New("the token is not this peer's")
	}
	if !h.Flow.possible() {
		return errors.New("the flow is not one that a peer takes part in")
	}
	defer context.AfterFunc(ctx, func() { _ = c.Close() })()
	id, one, err := s.open(h.Flow)
	if err != nil {
		return err
	}
	defer s.forget(id, one)
	if err := json.NewEncoder(c).Encode(Event{Event: "session", Session: id}); err != nil {
		return err
	}
	data, err := s.await(ctx, one)
	if err != nil {
		return err
	}
	return operate(commands, c, data)
}

func (s *Server) open(f Flow) (string, *session, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.sessions) >= maxSessions {
		return "", nil, errors.New("the peer is busy")
	}
	id := rand.Text()
	one := &session{flow: f, nonce: rand.Text(), conns: make(chan *net.TCPConn, f.Connections), joined: make(chan netip.AddrPort, 1)}
	s.sessions[id] = one
	return id, one, nil
}

func (s *Server) forget(id string, one *session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.sessions, id)
	delete(s.remotes, one.remote)
	for {
		select {
		case c := <-one.conns:
			_ = c.Close()
		default:
			return
		}
	}
}

// await waits until the near station has connected.
func (s *Server) await(ctx context.Context, one *session) (carrier, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*connectTime)
	defer cancel()
	late := errors.New("the near station did not connect")
	if one.flow.Protocol == Short {
		return newShortsFar(context.WithoutCancel(ctx), one.flow, one.conns), nil
	}
	if one.flow.datagrams() {
		select {
		case <-one.joined:
			return one.data, nil
		case <-ctx.Done():
			return nil, late
		}
	}
	var conns []*net.TCPConn
	for len(conns) < one.flow.Connections {
		select {
		case c := <-one.conns:
			conns = append(conns, c)
			if err := choose(c, one.flow.Congestion); err != nil {
				closeAll(conns)
				return nil, err
			}
		case <-ctx.Done():
			closeAll(conns)
			return nil, late
		}
	}
	return newStreams(one.flow, conns), nil
}

// receive reads the datagrams of all flows.
func (s *Server) receive() error {
	buffer, control := make([]byte, 2048), make([]byte, 256)
	for {
		n, c, _, from, err := s.udp.ReadMsgUDPAddrPort(buffer, control)
		if err != nil {
			if errors.Is(err, net.ErrClosed) {
				return err
			}
			continue // an ICMP error for a client that has ended
		}
		s.mu.Lock()
		one := s.remotes[from]
		s.mu.Unlock()
		if id, is := strings.CutPrefix(string(buffer[:min(n, 128)]), greeting); is {
			s.join(id, from, without(control[:c]))
		} else if one != nil {
			one.data.arrived(buffer[:n], control[:c])
		}
	}
}

// join makes the sender of an announcement the near end of its session, and answers. Packet
// information (ip(7)) contains the host's address that the announcement was sent to; in the answer
// it selects that address as the source.
func (s *Server) join(announced string, from netip.AddrPort, information []byte) {
	id, nonce, repeated := strings.Cut(announced, " ")
	s.mu.Lock()
	one := s.sessions[id]
	if one == nil || one.data != nil && one.remote != from || !one.flow.datagrams() {
		s.mu.Unlock()
		return
	}
	if !repeated || subtle.ConstantTimeCompare([]byte(nonce), []byte(one.nonce)) != 1 {
		s.mu.Unlock()
		_, _, _ = s.udp.WriteMsgUDPAddrPort([]byte(challenge+one.nonce), information, from)
		return
	}
	first := one.data == nil
	if first {
		before := socketDrops(s.udp)
		one.remote, s.remotes[from] = from, one
		one.data = &datagrams{flow: one.flow, header: headersTo(from), shut: func() {},
			drops: func() uint64 { return socketDrops(s.udp) - before },
			write: func(b []byte) error { _, _, err := s.udp.WriteMsgUDPAddrPort(b, information, from); return err }}
		if one.flow.Protocol == QUIC {
			one.data.acked = newAcked()
		}
		_ = s.udp.SetReadBuffer(bufferOf(one.flow))
	}
	s.mu.Unlock()
	_, _, _ = s.udp.WriteMsgUDPAddrPort([]byte(greeting), information, from) // a repeated announcement gets the answer again
	if first {
		one.joined <- from
	}
}
