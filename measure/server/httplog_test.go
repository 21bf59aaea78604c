// SPDX-License-Identifier: Apache-2.0

package server

import (
	"bytes"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
)

func TestPanicsAreLoggedAndScannersAreNot(t *testing.T) {
	var text bytes.Buffer
	s := &Server{config: Config{Log: slog.New(slog.NewTextHandler(&text, nil))}}
	here, there := net.Pipe()
	served := s.newHTTP(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic("a fault of the site") }))
	l := &oneConn{conn: there, closed: make(chan struct{})}
	ended := make(chan error, 1)
	go func() { ended <- served.Serve(l) }()
	if _, err := io.WriteString(here, "GET / HTTP/1.1\r\nHost: a\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, here) // until the server closes the connection, after its log
	_ = served.Close()
	<-ended
	served.ErrorLog.Printf("http: TLS handshake error from 192.0.2.1:1: EOF")
	if got := text.String(); strings.Count(got, "level=ERROR") != 1 || !strings.Contains(got, "a fault of the site") || strings.Contains(got, "TLS handshake") {
		t.Errorf("the log is %q", got)
	}
}

// oneConn is a listener of one connection.
type oneConn struct {
	conn   net.Conn
	closed chan struct{}
}

func (o *oneConn) Accept() (net.Conn, error) {
	if c := o.conn; c != nil {
		o.conn = nil
		return c, nil
	}
	<-o.closed
	return nil, net.ErrClosed
}

func (o *oneConn) Close() error   { close(o.closed); return nil }
func (o *oneConn) Addr() net.Addr { return &net.TCPAddr{} }
