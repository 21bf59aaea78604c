// SPDX-License-Identifier: Apache-2.0

package websocket

import (
	"crypto/rand"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"unicode/utf8"
)

// bufferSize is the read buffer of a connection in bytes; it holds any control frame.
const bufferSize = 4096

// Limits bound the memory and the number of messages that a peer can claim.
type Limits struct {
	Text     int    // bytes of a text message
	Binary   uint64 // bytes of a binary message
	Messages int    // text and control messages of a connection
}

// Conn is an open WebSocket connection.
type Conn struct {
	net.Conn              // the byte stream: TCP or TLS
	tcp      *net.TCPConn // of a clear connection; nil below TLS
	client   bool
	limits   Limits
	drop     func(limit uint64) (uint64, error) // drops bytes of the stream; nil reads them
	flush    func() error                       // flushes a batch below TLS; nil if there is none

	// Of the reader.
	buffer    [bufferSize]byte
	from, to  int
	open      Opcode // opcode of the fragmented message; 0 if there is none
	text      []byte
	size      uint64 // of the current binary message
	messages  int
	received  atomic.Uint64
	scratch   []byte
	closeSeen bool

	write     sync.Mutex // serializes frames
	closeSent bool       // guarded by write
	keys      [256]byte  // random masking keys of a client, guarded by write
	keysLeft  int
	frame     []byte // guarded by write
}

// Message is a received text, Ping, Pong or Close message, or the end of a binary one.
type Message struct {
	Opcode  Opcode
	Payload []byte // valid until the next call of Next; nil for Binary
	Status  Status // of a Close
}

// clearTCP returns the TCP connection of a stream without TLS, or nil.
func clearTCP(stream net.Conn) *net.TCPConn {
	for {
		switch s := stream.(type) {
		case *net.TCPConn:
			return s
		case *tls.Conn:
			return nil
		case interface{ NetConn() net.Conn }:
			stream = s.NetConn()
		default:
			return nil
		}
	}
}

// batch is a buffer below TLS.
type batch interface {
	Start()
	Flush() error
}

// newConn returns the connection; early are bytes read beyond the handshake.
func newConn(stream net.Conn, client bool, limits Limits, early []byte) (*Conn, error) {
	c := &Conn{Conn: stream, client: client, limits: limits}
	if len(early) > len(c.buffer) {
		return nil, violation("the peer sent %d bytes with its handshake", len(early))
	}
	c.to = copy(c.buffer[:], early)
	if c.tcp = clearTCP(stream); c.tcp != nil {
		c.drop = dropper(c.tcp)
	}
	if b, is := nested(stream).(batch); is {
		b.Start()
		c.flush = b.Flush
	}
	return c, nil
}

// Received returns the payload bytes of binary and text messages so far, those of an unfinished
// message included. It is safe for concurrent use.
func (c *Conn) Received() uint64 { return c.received.Load() }

// Next returns the next message. It answers Pings, drops binary payload and applies the limits. An
// [Error] names the violation of a peer; any other error is one of the stream.
func (c *Conn) Next() (Message, error) {
	for {
		h, err := c.header()
		if err != nil {
			return Message{}, err
		}
		if err := c.check(h); err != nil {
			return Message{}, err
		}
		if h.Opcode.control() {
			return c.control(h)
		}
		opcode := h.Opcode
		if opcode == Continuation {
			opcode = c.open
		} else {
			c.text, c.size = c.text[:0], 0
		}
		if c.open = opcode; h.Fin {
			c.open = 0
		}
		if opcode == Binary {
			if err := c.skip(h); err != nil {
				return Message{}, err
			}
			if h.Fin {
				return Message{Opcode: Binary}, nil
			}
			continue
		}
		if err := c.readText(h); err != nil {
			return Message{}, err
		}
		if !h.Fin {
			continue
		}
		if !utf8.Valid(c.text) {
			return Message{}, Violation(Invalid, "a text message is not UTF-8")
		}
		return Message{Opcode: Text, Payload: c.text}, nil
	}
}

// check rejects frames that the state of the connection does not allow.
func (c *Conn) check(h Header) error {
	switch {
	case h.Masked == c.client:
		return violation("a server masks no frame, and a client masks every frame")
	case c.closeSeen:
		return violation("a frame follows the Close frame")
	case h.Opcode == Continuation && c.open == 0:
		return violation("a continuation frame continues no message")
	case (h.Opcode == Text || h.Opcode == Binary) && c.open != 0:
		return violation("a new message starts inside a fragmented one")
	}
	// Each frame except those of binary payload counts, so that empty frames end too.
	if h.Opcode != Binary && !(h.Opcode == Continuation && c.open == Binary && h.Length > 0) {
		if c.messages++; c.messages > c.limits.Messages {
			return Violation(Policy, "more than %d text and control frames", c.limits.Messages)
		}
	}
	return nil
}

// header reads the next frame header.
func (c *Conn) header() (Header, error) {
	for {
		h, n, err := ParseHeader(c.buffer[c.from:c.to])
		if !errors.Is(err, errShort) {
			c.from += n
			return h, err
		}
		if err := c.fill(); err != nil {
			return h, err
		}
	}
}

// fill reads more of the stream into the buffer.
func (c *Conn) fill() error {
	if c.from > 0 {
		c.to = copy(c.buffer[:], c.buffer[c.from:c.to])
		c.from = 0
	}
	n, err := c.Conn.Read(c.buffer[c.to:])
	c.to += n
	if n > 0 {
		return nil
	}
	return err
}

// skip counts and drops the payload of a binary frame.
func (c *Conn) skip(h Header) error {
	if h.Length > c.limits.Binary || c.size+h.Length > c.limits.Binary {
		return Violation(TooBig, "a binary message has more than %d bytes", c.limits.Binary)
	}
	c.size += h.Length
	left := h.Length
	have := min(uint64(c.to-c.from), left)
	c.from += int(have)
	left -= have
	c.received.Add(have)
	for left > 0 {
		n, err := c.dropSome(left)
		left -= n
		c.received.Add(n)
		if err != nil {
			return err
		}
	}
	return nil
}

func (c *Conn) dropSome(limit uint64) (uint64, error) {
	if c.drop != nil {
		return c.drop(limit)
	}
	if c.scratch == nil {
		c.scratch = make([]byte, 16<<10) // one TLS record
	}
	n, err := c.Conn.Read(c.scratch[:min(limit, uint64(len(c.scratch)))])
	return uint64(n), err
}

func (c *Conn) readText(h Header) error {
	if h.Length > uint64(c.limits.Text-len(c.text)) {
		return Violation(TooBig, "a text message has more than %d bytes", c.limits.Text)
	}
	start := len(c.text)
	c.text = append(c.text, make([]byte, h.Length)...)
	if err := c.payload(h, c.text[start:]); err != nil {
		return err
	}
	c.received.Add(h.Length)
	return nil
}

// payload reads the payload of a frame into b and unmasks it.
func (c *Conn) payload(h Header, b []byte) error {
	n := copy(b, c.buffer[c.from:c.to])
	c.from += n
	if _, err := io.ReadFull(c.Conn, b[n:]); err != nil {
		return err
	}
	if h.Masked {
		h.mask(b, 0)
	}
	return nil
}

func (c *Conn) control(h Header) (Message, error) {
	payload := make([]byte, h.Length)
	if err := c.payload(h, payload); err != nil {
		return Message{}, err
	}
	m := Message{Opcode: h.Opcode, Payload: payload}
	switch h.Opcode {
	case Ping:
		// After the own Close frame nothing more is sent (section 5.5.1).
		if err := c.Write(Pong, payload); err != nil && !errors.Is(err, net.ErrClosed) {
			return m, err
		}
	case Close:
		c.closeSeen = true
		m.Status = NoStatus
		if len(payload) == 1 {
			return m, violation("a Close frame has one byte")
		}
		if len(payload) > 1 {
			m.Status, m.Payload = Status(binary.BigEndian.Uint16(payload)), payload[2:]
			if !m.Status.allowed() || !utf8.Valid(m.Payload) {
				return m, violation("a Close frame has the status %d or a reason that is not UTF-8", m.Status)
			}
		}
	}
	return m, nil
}

// allowed reports whether an endpoint may send the status (RFC 6455, section 7.4).
func (s Status) allowed() bool {
	return s >= 1000 && s <= 1014 && s != 1004 && s != 1005 && s != 1006 || s >= 3000 && s < 5000
}

// Write sends one message of at most a few KiB in one frame.
func (c *Conn) Write(opcode Opcode, payload []byte) error {
	c.write.Lock()
	defer c.write.Unlock()
	if c.closeSent {
		return net.ErrClosed
	}
	c.closeSent = opcode == Close
	h := Header{Fin: true, Opcode: opcode, Length: uint64(len(payload)), Masked: c.client}
	if c.client {
		h.Key = c.key()
	}
	c.frame = append(h.Append(c.frame[:0]), payload...)
	if h.Masked {
		h.mask(c.frame[len(c.frame)-len(payload):], 0)
	}
	if _, err := c.Conn.Write(c.frame); err != nil {
		return err
	}
	return c.flushed()
}

// WriteClose sends a Close frame; a second one has no effect. The reason is cut to fit.
func (c *Conn) WriteClose(status Status, reason string) error {
	if len(reason) > maxControl-2 {
		reason = reason[:maxControl-2]
	}
	for !utf8.ValidString(reason) {
		reason = reason[:len(reason)-1]
	}
	err := c.Write(Close, append(binary.BigEndian.AppendUint16(nil, uint16(status)), reason...))
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

func (c *Conn) flushed() error {
	if c.flush == nil {
		return nil
	}
	return c.flush()
}

// key returns a fresh random masking key (section 5.3).
func (c *Conn) key() (key [4]byte) {
	if c.keysLeft == 0 {
		_, _ = rand.Read(c.keys[:]) // never returns an error
		c.keysLeft = len(c.keys)
	}
	copy(key[:], c.keys[len(c.keys)-c.keysLeft:])
	c.keysLeft -= len(key)
	return key
}
