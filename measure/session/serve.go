// SPDX-License-Identifier: Apache-2.0

package session

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"weir/measure/record"
	"weir/measure/socket"
	"weir/measure/websocket"
)

// Test is one test on the side of the server.
type Test struct {
	Conn       *websocket.Conn
	Socket     socket.Socket
	Sampler    *socket.Sampler
	Direction  record.Direction
	UUID       string
	Accepted   time.Time       // of the TCP connection
	Base       socket.Counters // before the upgrade
	Concurrent int             // tests on the server, this one included
	TLS        bool
	// Congestion is the requested congestion control; CongestionError is the reason why the socket
	// has another one.
	Congestion      string
	CongestionError string

	Duration  time.Duration // the test may take CloseTime more
	Silence   time.Duration // replaces MaxSilence in tests; 0 keeps it
	EarlyExit uint64        // bytes acknowledged after which a download is complete; 0 for none
	Limit     uint64        // payload in bytes after which a test is complete; 0 for none

	// The protocol sets these fields.
	Protocol     string
	FirstMessage int // bytes of the first binary message
	Pace         Pace
	// Message returns a text message and keeps it for the record; nil if there is none. Calls do
	// not overlap.
	Message func(Moment) []byte
	// Take keeps the client's text message. An error ends the test.
	Take func(text []byte) error
}

// Moment is the state of a test at a text message.
type Moment struct {
	Start          time.Time
	Elapsed        time.Duration
	Sent, Received uint64 // payload of binary and text messages in bytes
	First          bool   // no text message has been sent
}

// Payload returns the bytes in the test's direction.
func (m Moment) Payload(d record.Direction) uint64 {
	if d == record.Download {
		return m.Sent
	}
	return m.Received
}

// Result is the outcome of a test.
type Result struct {
	Start, End time.Time
	Quality    *record.Quality
	// StoreError is the reason why the records are not durable; the client received no Close 1000.
	StoreError error
}

// Serve runs the test and closes its connection. store makes the records durable before the client
// receives Close 1000. Serve returns after at most Duration and CloseTime, plus the time of store
// and a second.
func Serve(ctx context.Context, t Test, store func(Result) error) Result {
	r := &run{Test: t, start: time.Now(), sentPings: map[int64]record.Ping{}, status: websocket.Normal, reason: "the test is complete, and its record is stored"}
	defer func() { _ = t.Conn.Close() }()
	end := r.start.Add(r.Duration + CloseTime)
	_ = t.Conn.SetDeadline(end)
	r.series = t.Sampler.Add(t.Socket, t.Direction == record.Download, r.start)
	r.sender = newSender(t.Conn, r.series, t.FirstMessage)

	outer := ctx
	ctx, stop := context.WithDeadline(ctx, r.start.Add(r.Duration))
	defer stop()
	var all sync.WaitGroup
	reader := make(chan struct{})
	go func() { defer close(reader); r.read(stop) }()
	all.Go(func() { r.Pace.Follow(ctx, func() { r.measure(); r.checkLimit(stop) }) })
	if t.Direction == record.Download {
		r.send(ctx)
	} else {
		r.receive(ctx)
	}
	stop()
	all.Wait()

	if outer.Err() != nil {
		r.fail(websocket.Violation(websocket.GoingAway, "the server stops"))
	}
	r.measure() // the last message before Close
	r.post()
	result := r.result()
	result.StoreError = store(result)
	r.close(result.StoreError)
	r.mu.Lock()
	violated := r.status != websocket.Normal
	r.mu.Unlock()
	// The records may have taken longer than the client's time: its Close still needs some.
	late := end.Before(time.Now().Add(closeGrace))
	if late {
		end = time.Now().Add(closeGrace)
		_ = r.Conn.SetReadDeadline(end)
	}
	if violated { // a client that ignores the Close frame keeps its place for a second at most
		_ = r.Conn.SetReadDeadline(time.Now().Add(closeGrace))
	}
	// The TCP connection ends after the peer's Close (RFC 6455, section 7.1.1).
	select {
	case <-reader:
	case <-time.After(time.Until(end)):
	}
	if violated || late {
		r.linger()
	}
	return result
}

// run is the state of a running test.
type run struct {
	Test
	start  time.Time
	series *socket.Series
	sender *sender

	textSent     atomic.Uint64 // bytes
	textReceived atomic.Uint64 // bytes

	mu        sync.Mutex // guards the following fields
	pings     []record.Ping
	sentPings map[int64]record.Ping // by the Unix time in ns that they contain
	payload   uint64                // bytes of an upload at the last measurement
	moved     time.Duration         // time of the last measurement with new payload in an upload
	mail      []byte                // the newest message that was not sent
	outcome   string
	complete  bool // the test reached its limit
	status    websocket.Status
	reason    string
}

// moment returns the state now. On slow links text is a tenth of the traffic; clients count it too.
func (r *run) moment() Moment {
	return Moment{
		Start: r.start, Elapsed: time.Since(r.start), Sent: r.sender.sent.Load() + r.textSent.Load(), Received: r.Conn.Received(), First: r.textSent.Load() == 0,
	}
}

// measure puts a measurement into the mail. In an upload nothing else is sent, so the message
// leaves at once.
func (r *run) measure() {
	m := r.moment()
	r.mu.Lock()
	if payload := r.Conn.Received() - r.textReceived.Load(); payload != r.payload {
		r.payload, r.moved = payload, m.Elapsed
	}
	r.mu.Unlock()
	text := r.Message(m)
	if text == nil {
		return // the connection is closed
	}
	r.mu.Lock()
	r.mail = text
	r.mu.Unlock()
	if r.Direction == record.Upload {
		r.post()
	}
}

// post sends the newest measurement and a Ping, if there is one that was not sent.
func (r *run) post() {
	r.mu.Lock()
	text := r.mail
	r.mail = nil
	r.mu.Unlock()
	if text == nil || r.Conn.Write(websocket.Text, text) != nil {
		return
	}
	r.textSent.Add(uint64(len(text)))
	info, err := r.Socket.Info()
	if err != nil {
		return
	}
	now := time.Now()
	r.mu.Lock()
	r.sentPings[now.UnixNano()] = record.Ping{ElapsedTime: now.Sub(r.start).Microseconds(), NotsentBytes: info.Notsent_bytes}
	r.mu.Unlock()
	_ = r.Conn.Write(websocket.Ping, strconv.AppendInt(nil, now.UnixNano(), 10))
}

// send sends bulk data until ctx ends or the test reached its limit.
func (r *run) send(ctx context.Context) {
	for ctx.Err() == nil {
		r.post()
		left := uint64(websocket.MaxBulk * maxCount)
		if r.Limit > 0 {
			left = r.Limit - min(r.Limit, r.moment().Sent)
		}
		if left == 0 || r.EarlyExit > 0 && r.series.Bytes() >= r.EarlyExit {
			r.finish()
			return
		}
		if err := r.sender.next(left); err != nil {
			r.fail(err)
			return
		}
	}
}

func (r *run) finish() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.complete = true
}

// receive waits until ctx ends, or until the client has sent no binary payload for MaxSilence: it
// would keep the place of another test.
func (r *run) receive(ctx context.Context) {
	silence := time.NewTimer(cmp.Or(r.Silence, MaxSilence))
	defer silence.Stop()
	select {
	case <-ctx.Done():
	case <-silence.C:
		if !r.silent() {
			<-ctx.Done()
		}
	}
	if errors.Is(ctx.Err(), context.Canceled) { // the client or the server ended the test
		return
	}
	if r.silent() {
		r.fail(websocket.Violation(websocket.Policy, "the client sent no payload"))
	}
}

// silent reports whether no binary payload has arrived, not even unread in the socket.
func (r *run) silent() bool {
	return r.Conn.Received() <= r.textReceived.Load() && r.Socket.Unread() == 0
}

// checkLimit ends an upload that reached its limit.
func (r *run) checkLimit(stop func()) {
	if r.Direction == record.Upload && r.Limit > 0 && r.Conn.Received() >= r.Limit {
		r.finish()
		stop()
	}
}

// read takes the client's messages until the connection ends, and stops the test before that at a
// Close or a violation.
func (r *run) read(stop func()) {
	for {
		m, err := r.Conn.Next()
		if err == nil {
			err = r.take(m)
			r.checkLimit(stop)
		}
		if err != nil {
			r.fail(err)
			// A blocked bulk message has a second to end, so that the Close frame can follow.
			_ = r.Conn.SetWriteDeadline(time.Now().Add(closeGrace))
			stop()
			return
		}
	}
}

// errClosed ends the reading at the peer's Close.
var errClosed = errors.New("the client closed the test")

func (r *run) take(m websocket.Message) error {
	switch m.Opcode {
	case websocket.Close:
		return errClosed
	case websocket.Pong:
		r.pong(m.Payload)
	case websocket.Binary:
		if r.Direction == record.Download {
			return websocket.Violation(websocket.Unsupported, "a client sends no binary messages in a download")
		}
	case websocket.Text:
		r.textReceived.Add(uint64(len(m.Payload)))
		if r.Take(m.Payload) != nil {
			return websocket.Violation(websocket.Invalid, "a text message is no measurement in JSON")
		}
	}
	return nil
}

// pong matches a Pong with its Ping. Unsolicited ones are ignored (RFC 6455, section 5.5.3).
func (r *run) pong(payload []byte) {
	sent, err := strconv.ParseInt(string(payload), 10, 64)
	if err != nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if p, known := r.sentPings[sent]; known {
		delete(r.sentPings, sent)
		p.RTT = time.Since(r.start).Microseconds() - p.ElapsedTime
		r.pings = append(r.pings, p)
	}
}

// fail keeps the first reason for the end of the test.
func (r *run) fail(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.outcome != "" {
		return
	}
	late := time.Since(r.start) >= r.Duration*9/10 // the archive's views count tests of 9 s and more
	status, reason, violated := websocket.StatusOf(err)
	switch {
	case violated:
		r.outcome, r.status, r.reason = reason, status, reason
	case late, r.complete:
		r.outcome = "complete"
	case errors.Is(err, errClosed), errors.Is(err, io.EOF), errors.Is(err, net.ErrClosed):
		r.outcome = "short"
	default:
		r.outcome = "the connection failed: " + err.Error()
	}
}

// close sends the Close frame. Status 1000 promises that the record is stored.
func (r *run) close(stored error) {
	r.mu.Lock()
	status, reason := r.status, r.reason
	r.mu.Unlock()
	if stored != nil {
		status, reason = websocket.Internal, "the record of the test could not be stored"
	}
	_ = r.Conn.SetWriteDeadline(time.Now().Add(closeGrace)) // the former one may have ended during store
	_ = r.Conn.WriteClose(status, reason)
}

// linger reads on until the read deadline: the end of a connection with unread
// data is a reset, which may overtake the Close frame.
func (r *run) linger() {
	_, _ = io.Copy(io.Discard, io.LimitReader(r.Conn.Conn, 1<<24))
}

func (r *run) result() Result {
	samples, missed := r.series.Stop()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.outcome == "" {
		r.outcome = "complete"
	}
	idle := quiet(samples)
	if r.Direction == record.Upload { // Pongs move bytes, too
		idle = time.Since(r.start) - r.moved
	}
	if r.outcome == "complete" && !r.complete && idle >= cmp.Or(r.Silence, MaxSilence) {
		r.outcome = fmt.Sprintf("no payload moved in the last %.1f s", idle.Seconds())
	}
	start, end := r.start.UTC(), r.start.Add(time.Since(r.start)).UTC() // the clock may have been set
	return Result{Start: start, End: end, Quality: &record.Quality{
		Format: "quality1", UUID: r.UUID, Direction: r.Direction, Protocol: r.Protocol, TLS: r.TLS, StartTime: start, EndTime: end,
		Outcome: r.outcome, Payload: r.moment().Payload(r.Direction), CongestionControl: r.Socket.Congestion(), Requested: r.Congestion,
		RequestedError: r.CongestionError, Concurrent: r.Concurrent, SamplesMissed: missed, Samples: samples, Pings: r.pings,
	}}
}

// quiet returns the time at the end of a test in which no byte was acknowledged.
func quiet(s record.Samples) time.Duration {
	last := len(s.Bytes) - 1
	if last < 0 {
		return 0
	}
	moved := uint32(0)
	for i := last; i > 0 && moved == 0; i-- {
		if s.Bytes[i] != s.Bytes[i-1] {
			moved = s.ElapsedTime[i]
		}
	}
	return time.Duration(s.ElapsedTime[last]-moved) * time.Microsecond
}
