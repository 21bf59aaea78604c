// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"net"
	"slices"
	"sync"
)

// limitedListener limits the number of open connections: a new one beyond the limit closes the
// oldest. So idle connections cannot block others, as they would in a queue.
type limitedListener struct {
	net.Listener
	most int

	mu   sync.Mutex
	open []*limitedConn // in order of arrival
}

type limitedConn struct {
	net.Conn
	of *limitedListener
}

// Accept waits for the next connection.
func (l *limitedListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	c := &limitedConn{conn, l}
	l.mu.Lock()
	l.open = append(l.open, c)
	var oldest *limitedConn
	if len(l.open) > l.most {
		oldest = l.open[0]
	}
	l.mu.Unlock()
	if oldest != nil {
		_ = oldest.Close()
	}
	return c, nil
}

// Close frees the place of the connection.
func (c *limitedConn) Close() error {
	c.of.mu.Lock()
	if i := slices.Index(c.of.open, c); i >= 0 {
		c.of.open = slices.Delete(c.of.open, i, i+1)
	}
	c.of.mu.Unlock()
	return c.Conn.Close()
}
