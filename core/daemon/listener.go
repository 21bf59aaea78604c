// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"net"
	"slices"
	"sync"
)

// crowdListener has so many connections open at a time: another one ends the oldest. So who holds
// connections and asks nothing keeps nobody out, where a queue would.
type crowdListener struct {
	net.Listener
	most int

	mu   sync.Mutex
	open []*crowdConn // in the order in which they came
}

type crowdConn struct {
	net.Conn
	of *crowdListener
}

// Accept waits for the next connection.
func (l *crowdListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	c := &crowdConn{conn, l}
	l.mu.Lock()
	l.open = append(l.open, c)
	var oldest *crowdConn
	if len(l.open) > l.most {
		oldest = l.open[0]
	}
	l.mu.Unlock()
	if oldest != nil {
		_ = oldest.Close()
	}
	return c, nil
}

// Close gives its place to another one.
func (c *crowdConn) Close() error {
	c.of.mu.Lock()
	if i := slices.Index(c.of.open, c); i >= 0 {
		c.of.open = slices.Delete(c.of.open, i, i+1)
	}
	c.of.mu.Unlock()
	return c.Conn.Close()
}
