// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"weir/internal/fault"
	"weir/measure/msak"
	"weir/measure/ndt7"
	"weir/measure/record"
	"weir/measure/session"
	"weir/measure/socket"
	"weir/measure/websocket"
)

// Family is an IP version.
type Family int

const (
	IPv4 Family = 4
	IPv6 Family = 6
)

func (f Family) String() string {
	if f == IPv6 {
		return "IPv6"
	}
	return "IPv4"
}

// Server is a server as the user names it.
type Server struct {
	Host string
	Port string
	TLS  bool
}

// ParseServer parses HOST, HOST:PORT, wss://HOST[:PORT] or ws://HOST[:PORT]. Without a scheme it is
// wss.
func ParseServer(text string) (Server, error) {
	wrong := func(reason string) (Server, error) {
		return Server{}, fault.New(fault.Usage, "write ndt.example.org, 192.0.2.9:8443 or ws://192.0.2.9:8080", "server %q: %s", text, reason)
	}
	scheme, rest, has := strings.Cut(text, "://")
	if !has {
		scheme, rest = "wss", text
		if address, err := netip.ParseAddr(text); err == nil && address.Is6() {
			rest = "[" + text + "]"
		}
	}
	s := Server{TLS: scheme == "wss", Port: "443"}
	switch scheme {
	case "wss":
	case "ws":
		s.Port = "80"
	default:
		return wrong("the scheme is not ws or wss")
	}
	u, err := url.Parse("//" + rest)
	switch {
	case err != nil || u.Hostname() == "":
		return wrong("it is no host name or address with an optional port")
	case u.Path != "" && u.Path != "/" || u.RawQuery != "" || u.User != nil:
		return wrong("it has more than a host and a port")
	}
	s.Host = u.Hostname()
	if u.Port() != "" {
		s.Port = u.Port()
	}
	return s, nil
}

// URL returns the server's URL, with the port.
func (s Server) URL() string {
	scheme := "ws"
	if s.TLS {
		scheme = "wss"
	}
	return scheme + "://" + net.JoinHostPort(s.Host, s.Port)
}

// Resolve returns the first address of the server in the family.
func (s Server) Resolve(ctx context.Context, f Family) (netip.AddrPort, error) {
	addresses, err := net.DefaultResolver.LookupNetIP(ctx, fmt.Sprintf("ip%d", f), s.Host)
	if err != nil {
		return netip.AddrPort{}, fault.New(fault.Failed, "check the name, or use the other family", "%s has no %s address: %w", s.Host, f, err)
	}
	port, err := net.DefaultResolver.LookupPort(ctx, "tcp", s.Port)
	if err != nil {
		return netip.AddrPort{}, fault.New(fault.Usage, "write a port from 1 to 65535", "server port %s: %w", s.Port, err)
	}
	return netip.AddrPortFrom(addresses[0].Unmap(), uint16(port)), nil
}

// dialer binds to the address or the interface.
func dialer(bind string) (*net.Dialer, error) {
	d := &net.Dialer{Timeout: connectTime}
	if bind == "" {
		return d, nil
	}
	if address, err := netip.ParseAddr(bind); err == nil {
		d.LocalAddr = net.TCPAddrFromAddrPort(netip.AddrPortFrom(address, 0))
		return d, nil
	}
	if _, err := net.InterfaceByName(bind); err != nil {
		return nil, fault.New(fault.Usage, "write --bind 192.0.2.7 or --bind eth0", "--bind %s is neither an address nor an interface of this host", bind)
	}
	d.Control = controlFunc(func(fd int) error { return unix.SetsockoptString(fd, unix.SOL_SOCKET, unix.SO_BINDTODEVICE, bind) })
	return d, nil
}

// connectTime bounds TCP connect, TLS and WebSocket handshake together.
const connectTime = 10 * time.Second

// path returns the path, query string and WebSocket subprotocol of a test.
func (o Options) path(m msak.Options) (path, query, subprotocol string) {
	names := []record.NameValue{{Name: "client_name", Value: "weir"}, {Name: "client_version", Value: o.Version}}
	if o.Token != "" {
		names = append(names, record.NameValue{Name: "access_token", Value: o.Token})
	}
	paths, subprotocol := [2]string{ndt7.DownloadPath, ndt7.UploadPath}, ndt7.Subprotocol
	if o.Test == MSAK {
		m.Metadata = names
		paths, subprotocol, query = [2]string{msak.DownloadPath, msak.UploadPath}, msak.Subprotocol, m.Query()
	} else {
		values := url.Values{}
		for _, n := range names {
			values.Set(n.Name, n.Value)
		}
		query = values.Encode()
	}
	if o.Direction == record.Upload {
		return paths[1], query, subprotocol
	}
	return paths[0], query, subprotocol
}

// open connects to the server and makes the handshakes.
func open(ctx context.Context, o Options, m msak.Options) (conn *websocket.Conn, sock socket.Socket, err error) {
	ctx, cancel := context.WithTimeout(ctx, connectTime)
	defer cancel()
	d, err := dialer(o.Bind)
	if err != nil {
		return nil, sock, err
	}
	stream, err := d.DialContext(ctx, "tcp", o.Address.String())
	if err != nil {
		return nil, sock, fault.New(fault.Failed, "check that the server listens there, and --bind", "connect: %w", err)
	}
	defer func() {
		if err != nil {
			_ = stream.Close()
		}
	}()
	if sock, err = socket.Of(stream); err != nil {
		return nil, sock, err
	}
	if o.Congestion != "" && o.Direction == record.Upload {
		if err := sock.SetCongestion(o.Congestion); err != nil {
			return nil, sock, fmt.Errorf("--cc %s on this host: %w", o.Congestion, err)
		}
	}
	if o.Server.TLS {
		secure := tls.Client(&socket.Batch{Conn: stream}, &tls.Config{
			ServerName: o.Server.Host, InsecureSkipVerify: o.Insecure, NextProtos: []string{"http/1.1"}, //nolint:gosec // --insecure
		})
		if err := secure.HandshakeContext(ctx); err != nil {
			try := "check that the port is the server's TLS port"
			var unverified *tls.CertificateVerificationError
			if errors.As(err, &unverified) {
				try = "for a lab's self-signed certificate add --insecure"
			}
			return nil, sock, fault.New(fault.Failed, try, "TLS handshake with %s: %w", o.Address, err)
		}
		stream = secure
	}
	path, query, subprotocol := o.path(m)
	u := &url.URL{Host: net.JoinHostPort(o.Server.Host, o.Server.Port), Path: path, RawQuery: query}
	conn, err = websocket.Dial(ctx, stream, u, subprotocol, "weir/"+o.Version, session.Limits)
	var refused *websocket.Refused
	if errors.As(err, &refused) {
		return nil, sock, rejection(refused, o.Test)
	}
	if err != nil {
		return nil, sock, fault.New(fault.Failed, "check that the server runs "+string(o.Test), "%w", err)
	}
	_ = stream.SetDeadline(time.Time{})
	return conn, sock, nil
}
