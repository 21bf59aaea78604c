// SPDX-License-Identifier: Apache-2.0

package websocket

import (
	"crypto/rand"
	"io"
	"net"
	"sync"

	"golang.org/x/sys/unix"
)

// regionSize is the memory of random bytes shared by all connections.
const regionSize = 4 << 20

var region = sync.OnceValue(func() []byte {
	b := make([]byte, regionSize)
	_, _ = rand.Read(b) // never returns an error
	return b
})

// MaxBulk is the largest message of [Bulk.Write] in bytes.
const MaxBulk = 1 << 20

// Bulk writes binary messages of random bytes. It belongs to one goroutine.
type Bulk struct {
	conn    *Conn
	headers []byte
	buffers [2 * maxBatch][]byte
	at      int // position in the region
}

// maxBatch is the number of messages in one system call.
const maxBatch = 4

// Bulk returns a writer of bulk messages.
func (c *Conn) Bulk() *Bulk { return &Bulk{conn: c, headers: make([]byte, 0, maxBatch*MaxHeaderLen)} }

// Write sends count binary messages (1 to 4) of size bytes each (at most [MaxBulk]).
//
// A client masks nothing: random bytes under a fresh random key are other random bytes, so that the
// frames are those of RFC 6455, section 5.3.
func (b *Bulk) Write(size, count int) error {
	c := b.conn
	c.write.Lock()
	defer c.write.Unlock()
	if c.closeSent {
		return net.ErrClosed
	}
	b.headers = b.headers[:0]
	buffers := net.Buffers(b.buffers[:0])
	for range min(count, maxBatch) {
		h := Header{Fin: true, Opcode: Binary, Length: uint64(size), Masked: c.client}
		if c.client {
			h.Key = c.key()
		}
		start := len(b.headers)
		b.headers = h.Append(b.headers)
		if b.at+size > regionSize {
			b.at = 0
		}
		buffers = append(buffers, b.headers[start:], region()[b.at:b.at+size])
		b.at += size
	}
	if c.tcp != nil {
		_, err := buffers.WriteTo(c.tcp) // writev
		return err
	}
	for _, part := range buffers {
		if _, err := c.Conn.Write(part); err != nil {
			return err
		}
	}
	return c.flushed()
}

// scratch is the buffer argument of recv with MSG_TRUNC; the kernel never writes to it (tcp(7)).
var scratch = make([]byte, 1<<20)

// dropper returns a function that drops received bytes in the kernel: at least one, at most limit.
func dropper(tcp *net.TCPConn) func(uint64) (uint64, error) {
	raw, err := tcp.SyscallConn()
	if err != nil {
		return nil
	}
	var want, got int
	var failed error
	receive := func(fd uintptr) bool {
		for {
			got, _, failed = unix.Recvfrom(int(fd), scratch[:want], unix.MSG_TRUNC)
			switch failed {
			case unix.EINTR:
			case unix.EAGAIN:
				return false
			default:
				return true
			}
		}
	}
	return func(limit uint64) (uint64, error) {
		want = int(min(limit, uint64(len(scratch))))
		if err := raw.Read(receive); err != nil {
			return 0, err
		}
		if failed != nil {
			return 0, &net.OpError{Op: "read", Net: "tcp", Err: failed}
		}
		if got == 0 {
			return 0, io.EOF
		}
		return uint64(got), nil
	}
}
