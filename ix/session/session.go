// SPDX-License-Identifier: Apache-2.0

// Package session runs BGP sessions: OPENs, timers and messages, without any policy or routes.
//
//	connection --Open--> OpenSent -> OpenConfirm -> Established --Next, Write--> closed
//
// [Open] exchanges the OPENs on a TCP connection (RFC 4271, section 8; dialing is the
// caller's part), [Session.Next] reads messages, [Session.Write] writes them. A fault of the
// peer is answered with its NOTIFICATION and ends the session.
//
// Pitfalls: [Session.Keepalive] is called by the caller each [Session.KeepaliveTime]. One goroutine
// calls Next; the other methods are safe for concurrent use.
package session

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"time"

	"weir/ix/wire"
)

// Config describes the own side of a session and the expected peer.
type Config struct {
	Open     wire.Open     // sent
	PeerAS   uint32        // of the peer's OPEN
	Accept   Accept        // nil: no further check
	OpenWait time.Duration // for OPEN and first KEEPALIVE; 0: 4 minutes (RFC 4271, section 8.2.2)
	SendHold time.Duration // without progress of a write; 0: RFC 9687's
	Buffer   int           // bytes of the read buffer; 0: 4 KiB
}

// Accept checks the peer's OPEN before it is confirmed. Its error ends the session; that of a
// [*wire.Notification] is sent.
type Accept func(*wire.Open) error

const (
	defaultOpenWait = 4 * time.Minute
	minSendHold     = 8 * time.Minute // RFC 9687, section 3
	lastWords       = time.Second     // for a NOTIFICATION
)

// ErrHoldTimer is the end of a session without message of the peer during the hold time.
var ErrHoldTimer = errors.New("hold timer expired")

// ErrSendHold is the end of a session with a peer that reads nothing (RFC 9687).
var ErrSendHold = errors.New("send hold timer expired: the peer reads nothing")

// Session is an established session.
type Session struct {
	Peer wire.Open // of the peer

	conn     net.Conn
	reader   *bufio.Reader
	body     []byte
	max      int // bytes of a received message
	hold     time.Duration
	sendHold time.Duration
	notified bool // the peer has sent a NOTIFICATION

	writing sync.Mutex // held during a write
	last    time.Time  // of the last write; guarded by writing
	broken  bool       // a message was written in part; guarded by writing
}

// deadlined sets the read deadline before each system call.
type deadlined struct{ s *Session }

func (d deadlined) Read(p []byte) (int, error) {
	if d.s.hold > 0 {
		if err := d.s.conn.SetReadDeadline(time.Now().Add(d.s.hold)); err != nil {
			return 0, err
		}
	}
	return d.s.conn.Read(p)
}

// Open exchanges OPENs and KEEPALIVEs. On an error it has sent a NOTIFICATION where RFC 4271 has
// one, and has closed the connection.
func Open(conn net.Conn, c Config) (*Session, error) {
	s := &Session{conn: conn, max: wire.MaxMessage, hold: c.OpenWait, sendHold: c.SendHold}
	if s.hold == 0 {
		s.hold = defaultOpenWait
	}
	if s.sendHold == 0 {
		s.sendHold = minSendHold
	}
	s.reader = bufio.NewReaderSize(deadlined{s}, max(c.Buffer, 4<<10))
	if err := s.open(c); err != nil {
		s.fail(err)
		return nil, err
	}
	return s, nil
}

func (s *Session) open(c Config) error {
	if err := s.Write(wire.AppendOpen(nil, &c.Open)); err != nil {
		return err
	}
	kind, body, err := s.message()
	if err != nil {
		return err
	}
	if kind != wire.TypeOpen {
		return stateError(1, kind) // RFC 6608: unexpected message in OpenSent
	}
	if s.Peer, err = wire.ParseOpen(body); err != nil {
		return err
	}
	if s.Peer.AS != c.PeerAS {
		return &wire.MessageError{Code: 2, Subcode: 2, Reason: fmt.Sprintf("the OPEN has AS %d instead of %d", s.Peer.AS, c.PeerAS)}
	}
	if s.Peer.ID == c.Open.ID && s.Peer.AS == c.Open.AS {
		return &wire.MessageError{Code: 2, Subcode: 3, Reason: fmt.Sprintf("the peer has Weir's BGP identifier %s", s.Peer.ID)}
	}
	if c.Accept != nil {
		if err := c.Accept(&s.Peer); err != nil {
			return err
		}
	}
	if err := s.Write(wire.AppendKeepalive(nil)); err != nil {
		return err
	}
	if kind, _, err = s.message(); err != nil {
		return err
	}
	if kind != wire.TypeKeepalive {
		return stateError(2, kind)
	}
	s.hold = time.Duration(min(c.Open.HoldTime, s.Peer.HoldTime)) * time.Second
	if s.hold == 0 {
		if err := s.conn.SetReadDeadline(time.Time{}); err != nil {
			return err
		}
	}
	if c.SendHold == 0 {
		s.sendHold = max(minSendHold, 2*s.hold)
	}
	if c.Open.ExtendedMessages && s.Peer.ExtendedMessages {
		s.max = wire.MaxExtendedMessage
	}
	return nil
}

func stateError(subcode, kind uint8) error {
	return &wire.MessageError{Code: wire.CodeState, Subcode: subcode, Reason: fmt.Sprintf("message type %d is unexpected in this state", kind)}
}

// MaxMessage returns the maximum size of a message to the peer, in bytes.
func (s *Session) MaxMessage() int { return s.max }

// Hold returns the negotiated hold time, 0 for none.
func (s *Session) Hold() time.Duration { return s.hold }

// KeepaliveTime returns the interval of KEEPALIVEs, a third of the hold time, 0 for none.
func (s *Session) KeepaliveTime() time.Duration { return s.hold / 3 }

// Next returns the type and the body of the next UPDATE or ROUTE-REFRESH. The body is valid until
// the next call. On an error it has sent a NOTIFICATION where RFC 4271 has one, and has closed the
// connection; a NOTIFICATION of the peer is a [*wire.Notification].
func (s *Session) Next() (kind uint8, body []byte, err error) {
	for {
		kind, body, err = s.message()
		if err == nil && kind == wire.TypeOpen {
			err = stateError(3, kind)
		}
		if err != nil {
			s.fail(err)
			return 0, nil, err
		}
		if kind != wire.TypeKeepalive {
			return kind, body, nil
		}
	}
}

// Ready reports whether the next message has arrived as a whole, so that Next does not wait unless
// it is a KEEPALIVE.
func (s *Session) Ready() bool {
	n := s.reader.Buffered()
	if n < wire.HeaderSize {
		return false
	}
	head, err := s.reader.Peek(wire.HeaderSize)
	return err == nil && n >= int(binary.BigEndian.Uint16(head[16:])) && head[18] != wire.TypeKeepalive
}

func (s *Session) message() (kind uint8, body []byte, err error) {
	var head [wire.HeaderSize]byte
	if _, err := io.ReadFull(s.reader, head[:]); err != nil {
		return 0, nil, s.readError(err)
	}
	kind, size, err := wire.ParseHeader(head[:], s.max)
	if err != nil {
		return 0, nil, err
	}
	if size -= wire.HeaderSize; cap(s.body) < size {
		s.body = make([]byte, size)
	}
	s.body = s.body[:size]
	if _, err := io.ReadFull(s.reader, s.body); err != nil {
		return 0, nil, s.readError(err)
	}
	if kind == wire.TypeNotification {
		s.notified = true
		return 0, nil, wire.ParseNotification(s.body)
	}
	return kind, s.body, nil
}

func (s *Session) readError(err error) error {
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return ErrHoldTimer
	}
	return fmt.Errorf("read: %w", err)
}

// Write writes whole messages. If the peer reads none of it during the send hold time, the error is
// [ErrSendHold].
func (s *Session) Write(messages []byte) error {
	s.writing.Lock()
	defer s.writing.Unlock()
	return s.write(messages, s.sendHold)
}

func (s *Session) write(messages []byte, limit time.Duration) error {
	for len(messages) > 0 { // in steps, since the time is that without progress
		step := messages[:min(len(messages), 64<<10)]
		if err := s.conn.SetWriteDeadline(time.Now().Add(limit)); err != nil {
			return fmt.Errorf("write: %w", err)
		}
		n, err := s.conn.Write(step)
		messages = messages[n:]
		if errors.Is(err, os.ErrDeadlineExceeded) && n > 0 {
			continue
		}
		if err != nil {
			s.broken = true
			if errors.Is(err, os.ErrDeadlineExceeded) {
				return ErrSendHold
			}
			return fmt.Errorf("write: %w", err)
		}
	}
	s.last = time.Now()
	return nil
}

// Keepalive writes a KEEPALIVE if nothing was written during the last KeepaliveTime.
func (s *Session) Keepalive() error {
	s.writing.Lock()
	defer s.writing.Unlock()
	if s.hold == 0 || time.Since(s.last) < s.KeepaliveTime() {
		return nil
	}
	return s.write(wire.AppendKeepalive(nil), s.sendHold)
}

// fail sends the NOTIFICATION of an error, if it has one, and closes the connection.
func (s *Session) fail(err error) {
	var fault *wire.MessageError
	var own *wire.Notification
	switch {
	case errors.As(err, &fault):
		s.End(&wire.Notification{Code: fault.Code, Subcode: fault.Subcode})
	case errors.Is(err, ErrHoldTimer):
		s.End(&wire.Notification{Code: wire.CodeHoldTimer})
	case errors.As(err, &own) && !s.notified:
		s.End(own)
	default:
		s.Close()
	}
}

// End sends a NOTIFICATION and closes the connection. It does not wait for a peer that reads
// nothing.
func (s *Session) End(n *wire.Notification) {
	// A deadline in the past ends a write that waits for the peer.
	for range 10 {
		if s.writing.TryLock() {
			if !s.broken {
				_ = s.write(n.Append(nil), lastWords) // the session ends in any case
			}
			s.writing.Unlock()
			break
		}
		_ = s.conn.SetWriteDeadline(time.Now())
		time.Sleep(time.Millisecond)
	}
	s.Close()
}

// Close closes the connection without a NOTIFICATION, so that a peer with graceful restart (RFC
// 4724) keeps its routes.
func (s *Session) Close() { _ = s.conn.Close() }
