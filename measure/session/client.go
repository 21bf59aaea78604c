// SPDX-License-Identifier: Apache-2.0

package session

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"weir/measure/record"
	"weir/measure/socket"
	"weir/measure/websocket"
)

// Event is one measurement of a client's test: its own or one of the server.
type Event struct {
	record.Measurement
	At time.Duration // since the start of the test, on the client's clock
}

// ClientTest is one test on the side of the client.
type ClientTest struct {
	Conn      *websocket.Conn
	Socket    socket.Socket
	Sampler   *socket.Sampler
	Direction record.Direction
	Progress  func(Event) // may be nil; called from one goroutine at a time
	Duration  time.Duration
	Limit     uint64 // payload in bytes after which an upload ends; 0 for none

	// The protocol sets these fields.
	FirstMessage int // bytes of the first binary message
	Pace         Pace
	// Interleave sends own measurements at the start, and between the bulk messages of an upload
	// too, where they wait behind the data in the socket.
	Interleave bool
	Encode     func(record.Measurement, Moment) ([]byte, error)
	Decode     func([]byte) (record.Measurement, error)
}

// ClientResult is the outcome of a test on the side of the client.
type ClientResult struct {
	Elapsed  time.Duration // until the last bulk data
	Payload  uint64        // bytes of messages received (download), or of binary ones written to the socket (upload)
	Events   []Event
	Samples  record.Samples // of the client's socket
	Last     *record.TCPInfo
	Close    websocket.Status // 0 without a Close from the server
	Reason   string
	Err      error // reason why the test ended early; nil at a Close
	Started  time.Time
	Finished bool
	// Congestion is the congestion control of the sender; "" if it is not known.
	Congestion string
}

// Measure runs the test and closes the connection. It ends after at most Duration, CloseTime and a
// second.
func Measure(ctx context.Context, t ClientTest) ClientResult {
	c := &clientRun{ClientTest: t, start: time.Now(), closed: make(chan struct{})}
	c.result.Started = c.start
	defer func() { _ = t.Conn.Close() }()
	// The server may take CloseTime; a second more lets its Close arrive.
	_ = t.Conn.SetDeadline(c.start.Add(t.Duration + CloseTime + time.Second))
	abort := context.AfterFunc(ctx, func() { _ = t.Conn.SetDeadline(time.Unix(1, 0)) })
	defer abort()
	series := t.Sampler.Add(t.Socket, t.Direction == record.Upload, c.start)
	c.sender = newSender(t.Conn, series, t.FirstMessage)

	if t.Interleave { // names the congestion control, also in a short test
		c.measure()
		c.post()
	}
	running, stop := context.WithDeadline(ctx, c.start.Add(t.Duration))
	defer stop()
	var all sync.WaitGroup
	all.Go(func() { c.Pace.Follow(running, c.measure) })
	all.Go(c.read)
	if t.Direction == record.Upload {
		c.upload(running)
	} else {
		<-c.closed
	}
	stop()
	<-c.closed
	all.Wait()
	samples, _ := series.Stop()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.result.Samples = samples
	if ctx.Err() != nil {
		c.result.Err = ctx.Err()
	}
	return c.result
}

type clientRun struct {
	ClientTest
	start  time.Time
	sender *sender
	closed chan struct{} // closed when reading ended

	lastData time.Duration // end of the last message of a download; of the reader

	textSent atomic.Uint64 // bytes

	mu     sync.Mutex // guards the following fields
	result ClientResult
	mail   []byte // the newest measurement that an upload has not sent
}

func (c *clientRun) payload() uint64 {
	if c.Direction == record.Upload {
		return c.sender.sent.Load()
	}
	return c.Conn.Received()
}

// measure keeps an own measurement and sends it.
func (c *clientRun) measure() {
	m := record.Measurement{AppInfo: &record.AppInfo{NumBytes: int64(c.payload()), ElapsedTime: time.Since(c.start).Microseconds()}, Origin: "client", Test: c.Direction}
	c.keep(m)
	if c.Direction == record.Upload && !c.Interleave {
		return
	}
	text, err := c.Encode(m, Moment{
		Start: c.start, Elapsed: time.Since(c.start), Sent: c.sender.sent.Load() + c.textSent.Load(), Received: c.Conn.Received(), First: c.textSent.Load() == 0,
	})
	if err != nil {
		return
	}
	if c.Direction == record.Download {
		c.write(text)
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mail = text
}

func (c *clientRun) write(text []byte) {
	if c.Conn.Write(websocket.Text, text) == nil {
		c.textSent.Add(uint64(len(text)))
	}
}

// post sends the newest measurement of an upload.
func (c *clientRun) post() {
	c.mu.Lock()
	text := c.mail
	c.mail = nil
	c.mu.Unlock()
	if text != nil {
		c.write(text)
	}
}

func (c *clientRun) keep(m record.Measurement) {
	e := Event{Measurement: m, At: time.Since(c.start)}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.result.Events = append(c.result.Events, e)
	c.result.Elapsed, c.result.Payload = e.At, c.payload()
	if c.Progress != nil {
		c.Progress(e)
	}
}

// upload sends until the time is over or the server closes, then starts the closing handshake.
func (c *clientRun) upload(ctx context.Context) {
	for ctx.Err() == nil {
		select {
		case <-c.closed:
			return
		default:
		}
		c.post()
		left := uint64(websocket.MaxBulk * maxCount)
		if c.Limit > 0 {
			left = c.Limit - min(c.Limit, c.sender.sent.Load()+c.textSent.Load())
		}
		if left == 0 {
			break
		}
		if err := c.sender.next(left); err != nil {
			c.fail(err)
			break
		}
	}
	c.mu.Lock()
	c.result.Elapsed, c.result.Payload = time.Since(c.start), c.payload()
	c.mu.Unlock()
	if c.Interleave {
		c.measure() // the last one
		c.post()
	}
	_ = c.Conn.WriteClose(websocket.Normal, "")
}

func (c *clientRun) fail(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.result.Err == nil && !c.result.Finished {
		c.result.Err = err
	}
}

// read takes the server's messages until it closes the connection.
func (c *clientRun) read() {
	defer close(c.closed)
	for {
		m, err := c.Conn.Next()
		if err == nil {
			err = c.take(m)
		}
		if err == nil {
			continue
		}
		tcp, _, _ := c.Socket.Read(c.start)
		c.mu.Lock()
		c.result.Last = tcp
		if c.Direction == record.Download {
			// Without the time in which the server stores the record before its Close.
			c.result.Elapsed, c.result.Payload = c.lastData, c.payload()
		}
		c.mu.Unlock()
		if status, reason, violated := websocket.StatusOf(err); violated {
			_ = c.Conn.WriteClose(status, reason)
		}
		if !errors.Is(err, errServerClosed) {
			if errors.Is(err, io.EOF) {
				err = errors.New("the server ended the connection without a Close frame")
			}
			c.fail(err)
		}
		return
	}
}

// errServerClosed ends the reading at the server's Close.
var errServerClosed = errors.New("the server closed the test")

func (c *clientRun) take(m websocket.Message) error {
	switch m.Opcode {
	case websocket.Close:
		c.mu.Lock()
		c.result.Close, c.result.Reason = m.Status, string(m.Payload)
		c.result.Finished = true
		if m.Status != websocket.Normal && m.Status != websocket.NoStatus && c.result.Err == nil {
			c.result.Err = fmt.Errorf("the server ended the test with status %d: %s", m.Status, m.Payload)
		}
		c.mu.Unlock()
		_ = c.Conn.WriteClose(websocket.Normal, "")
		return errServerClosed
	case websocket.Binary:
		if c.Direction == record.Upload {
			return websocket.Violation(websocket.Unsupported, "a server sends no binary messages in an upload")
		}
		c.lastData = time.Since(c.start)
	case websocket.Text:
		c.lastData = time.Since(c.start)
		v, err := c.Decode(m.Payload)
		if err != nil {
			return websocket.Violation(websocket.Invalid, "a text message is no measurement in JSON")
		}
		v.Origin, v.Test = "server", c.Direction
		c.keep(v)
	}
	return nil
}
