// SPDX-License-Identifier: Apache-2.0

package ndt7

import (
	"context"
	"encoding/json"
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
	Accepted   time.Time // of the TCP connection
	EarlyExit  uint64    // bytes acknowledged after which a download ends; 0 for none
	Concurrent int       // tests on the server, this one included
	TLS        bool
	// Congestion is the requested congestion control; CongestionError is the reason why the socket
	// has another one.
	Congestion      string
	CongestionError string
	ClientMetadata  []record.NameValue
	ServerMetadata  []record.NameValue
	Version, Commit string

	// Duration and MaxDuration replace the constants in tests; 0 keeps them.
	Duration, MaxDuration time.Duration
}

// Result is the outcome of a test.
type Result struct {
	NDT7    *record.NDT7
	Quality *record.Quality
	// StoreError is the reason why the records are not durable; the client received no Close 1000.
	StoreError error
}

// Serve runs the test and closes its connection. store makes the records durable before the client
// receives Close 1000. Serve returns after at most MaxDuration, plus the time of store.
func Serve(ctx context.Context, t Test, store func(*record.NDT7, *record.Quality) error) Result {
	r := newRun(t)
	defer func() { _ = t.Conn.Close() }()
	_ = t.Conn.SetDeadline(r.start.Add(r.MaxDuration))
	r.series = t.Sampler.Add(t.Socket, t.Direction == record.Download, r.start)
	r.sender = newSender(t.Conn, r.series)

	outer := ctx
	ctx, stop := context.WithDeadline(ctx, r.start.Add(r.Duration))
	defer stop()
	var all sync.WaitGroup
	reader := make(chan struct{})
	go func() { defer close(reader); r.read(stop) }()
	all.Go(func() { cadence(ctx, r.measure) })
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
	result := r.records()
	result.StoreError = store(result.NDT7, result.Quality)
	r.close(result.StoreError)
	r.mu.Lock()
	violated := r.status != websocket.Normal
	r.mu.Unlock()
	if violated { // a client that ignores the Close frame keeps its place for a second at most
		_ = r.Conn.SetReadDeadline(time.Now().Add(time.Second))
	}
	// The TCP connection ends after the peer's Close (RFC 6455, section 7.1.1).
	select {
	case <-reader:
	case <-time.After(time.Until(r.start.Add(r.MaxDuration))):
	}
	if violated {
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
	server    []record.Measurement
	client    []record.Measurement
	pings     []record.Ping
	sentPings map[int64]record.Ping // by the Unix time in ns that they contain
	mail      []byte                // the newest message that was not sent
	outcome   string
	complete  bool // the test ran for its whole duration
	status    websocket.Status
	reason    string
}

func newRun(t Test) *run {
	if t.Duration == 0 {
		t.Duration = Duration
	}
	if t.MaxDuration == 0 {
		t.MaxDuration = MaxDuration
	}
	return &run{Test: t, start: time.Now(), sentPings: map[int64]record.Ping{}, status: websocket.Normal, reason: "the test is complete, and its record is stored"}
}

// payload returns the bytes of binary and text messages so far, as Measurement Lab's clients count
// them: on slow links text is a tenth of the traffic.
func (r *run) payload() uint64 {
	if r.Direction == record.Download {
		return r.sender.sent.Load() + r.textSent.Load()
	}
	return r.Conn.Received()
}

// measure makes a measurement for the archive and puts it into the mail. In an upload nothing else
// is sent, so the message leaves at once.
func (r *run) measure() {
	tcp, bbr, err := r.Socket.Read(r.start)
	if err != nil {
		return // the connection is closed
	}
	m := record.Measurement{
		AppInfo:        &record.AppInfo{NumBytes: int64(r.payload()), ElapsedTime: time.Since(r.start).Microseconds()},
		ConnectionInfo: &record.ConnectionInfo{Client: r.Conn.RemoteAddr().String(), Server: r.Conn.LocalAddr().String(), UUID: r.UUID, StartTime: r.start.UTC()},
		BBRInfo:        bbr, TCPInfo: tcp, Origin: "server", Test: r.Direction,
	}
	text, err := json.Marshal(m)
	if err != nil {
		return
	}
	m.Origin, m.Test = "", "" // the archive has them as the record's member
	r.mu.Lock()
	r.server = append(r.server, m)
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

// send sends bulk data until ctx ends.
func (r *run) send(ctx context.Context) {
	for ctx.Err() == nil {
		r.post()
		if err := r.sender.next(); err != nil {
			r.fail(err)
			return
		}
		if r.EarlyExit > 0 && r.series.Bytes() >= r.EarlyExit {
			r.mu.Lock()
			r.complete = true
			r.mu.Unlock()
			return
		}
	}
}

// receive waits until ctx ends, or until the client has sent no binary payload for 3 s: it would
// keep the place of another test.
func (r *run) receive(ctx context.Context) {
	silence := time.NewTimer(time.Duration(float64(r.Duration) * maxSilence))
	defer silence.Stop()
	select {
	case <-ctx.Done():
	case <-silence.C:
		if r.Conn.Received() <= r.textReceived.Load() {
			r.fail(websocket.Violation(websocket.Policy, "the client sent no payload"))
		} else {
			<-ctx.Done()
		}
	}
}

// read takes the client's messages until the connection ends, and stops the test before that at a
// Close or a violation.
func (r *run) read(stop func()) {
	for {
		m, err := r.Conn.Next()
		if err == nil {
			err = r.take(m)
		}
		if err != nil {
			r.fail(err)
			// A blocked bulk message has a second to end, so that the Close frame can follow.
			_ = r.Conn.SetWriteDeadline(time.Now().Add(time.Second))
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
		var c record.Measurement
		if err := json.Unmarshal(m.Payload, &c); err != nil {
			return websocket.Violation(websocket.Invalid, "a text message is no measurement in JSON")
		}
		// These members have a bounded size. A client may not send ConnectionInfo, and Origin and
		// Test are no members of the archive's schema.
		kept := record.Measurement{AppInfo: c.AppInfo, BBRInfo: c.BBRInfo, TCPInfo: c.TCPInfo}
		r.mu.Lock()
		r.client = append(r.client, kept)
		r.mu.Unlock()
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
	_ = r.Conn.WriteClose(status, reason)
}

// linger reads on after a violation until the read deadline: the end of a connection with unread
// data is a reset, which may overtake the Close frame.
func (r *run) linger() {
	_, _ = io.Copy(io.Discard, io.LimitReader(r.Conn.Conn, 1<<24))
}

func (r *run) records() Result {
	samples, missed := r.series.Stop()
	r.mu.Lock()
	defer r.mu.Unlock()
	end := time.Now().UTC()
	if r.outcome == "" {
		r.outcome = "complete"
	}
	archival := &record.Archival{
		UUID: r.UUID, StartTime: r.start.UTC(), EndTime: end, ServerMeasurements: r.server, ClientMeasurements: r.client,
		ClientMetadata: r.ClientMetadata, ServerMetadata: r.ServerMetadata,
	}
	n := &record.NDT7{GitShortCommit: r.Commit, Version: r.Version, StartTime: r.Accepted.UTC(), EndTime: end}
	n.ServerIP, n.ServerPort = split(r.Conn.LocalAddr())
	n.ClientIP, n.ClientPort = split(r.Conn.RemoteAddr())
	if r.Direction == record.Download {
		n.Download = archival
	} else {
		n.Upload = archival
	}
	return Result{NDT7: n, Quality: &record.Quality{
		Format: "quality1", UUID: r.UUID, Direction: r.Direction, Protocol: "ndt7", TLS: r.TLS, StartTime: r.start.UTC(), EndTime: end,
		Outcome: r.outcome, Payload: r.payload(), CongestionControl: r.Socket.Congestion(), Requested: r.Congestion, RequestedError: r.CongestionError,
		Concurrent: r.Concurrent, SamplesMissed: missed, Samples: samples, Pings: r.pings,
	}}
}

func split(a net.Addr) (ip string, port int) {
	tcp, is := a.(*net.TCPAddr)
	if !is {
		return fmt.Sprint(a), 0
	}
	address := tcp.AddrPort()
	return address.Addr().Unmap().String(), int(address.Port())
}
