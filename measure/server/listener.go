// SPDX-License-Identifier: Apache-2.0

package server

import (
	"crypto/tls"
	"net"
	"net/netip"
	"sync"
	"time"

	"weir/measure/admission"
	"weir/measure/socket"
)

// accepted is a connection with the time of its accept. It counts against its client block until it
// is closed.
type accepted struct {
	*net.TCPConn
	at    time.Time
	close func()
}

// NetConn returns the TCP connection.
func (a *accepted) NetConn() net.Conn { return a.TCPConn }

func (a *accepted) Close() error {
	a.close()
	return a.TCPConn.Close()
}

// connections bounds the open connections of each client block and of all together: the records of
// running tests need file descriptors, too. It is safe for concurrent use.
type connections struct {
	most, total int

	mu   sync.Mutex // guards the following fields
	open map[netip.Prefix]int
	all  int
}

func newConnections(most, total int) *connections {
	return &connections{most: most, total: total, open: map[netip.Prefix]int{}}
}

// take counts a connection; release is nil if the block or all clients have too many.
func (c *connections) take(client netip.Addr) (release func()) {
	block := admission.Block(client)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.open[block] >= c.most || c.all >= c.total {
		return nil
	}
	c.open[block]++
	c.all++
	return sync.OnceFunc(func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.all--
		if c.open[block]--; c.open[block] == 0 {
			delete(c.open, block)
		}
	})
}

// listener accepts connections within the bounds, and in TLS if config is set.
type listener struct {
	*net.TCPListener
	connections *connections
	config      *tls.Config
}

func (l *listener) Accept() (net.Conn, error) {
	for {
		tcp, err := l.AcceptTCP()
		if err != nil {
			return nil, err
		}
		release := l.connections.take(tcp.RemoteAddr().(*net.TCPAddr).AddrPort().Addr())
		if release == nil {
			_ = tcp.SetLinger(0)
			_ = tcp.Close()
			continue
		}
		conn := &accepted{TCPConn: tcp, at: time.Now(), close: release}
		if l.config == nil {
			return conn, nil
		}
		return tls.Server(&socket.Batch{Conn: conn}, l.config), nil
	}
}
