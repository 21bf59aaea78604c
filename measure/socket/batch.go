// SPDX-License-Identifier: Apache-2.0

package socket

import (
	"net"
	"sync"
)

// batchSize is the most that a [Batch] buffers in bytes: four TLS records.
const batchSize = 64 << 10

// Batch joins the writes of a TLS connection, which makes a system call for each record of 16 KiB.
// Before Start it passes all writes through, so that handshakes and HTTP need no Flush. It is safe
// for concurrent use.
type Batch struct {
	net.Conn
	mu     sync.Mutex // guards the following fields
	on     bool
	buffer []byte
}

// NetConn returns the connection below.
func (b *Batch) NetConn() net.Conn { return b.Conn }

// Start buffers the following writes until Flush or until the buffer is full.
func (b *Batch) Start() {
	b.mu.Lock()
	b.on = true
	b.mu.Unlock()
}

// Write sends or buffers p.
func (b *Batch) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.buffer)+len(p) > batchSize {
		if err := b.flush(); err != nil {
			return 0, err
		}
	}
	if !b.on || len(p) > batchSize {
		return b.Conn.Write(p)
	}
	b.buffer = append(b.buffer, p...)
	return len(p), nil
}

// Flush sends the buffer.
func (b *Batch) Flush() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.flush()
}

func (b *Batch) flush() error {
	if len(b.buffer) == 0 {
		return nil
	}
	_, err := b.Conn.Write(b.buffer)
	b.buffer = b.buffer[:0]
	return err
}
