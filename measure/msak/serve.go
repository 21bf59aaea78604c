// SPDX-License-Identifier: Apache-2.0

package msak

import (
	"context"
	"encoding/json"
	"regexp"
	"sync"

	"weir/measure/record"
	"weir/measure/session"
	"weir/measure/socket"
)

// Stream is one stream on the side of the server.
type Stream struct {
	session.Test
	Options         Options
	Version, Commit string
}

// Result is the outcome of a stream.
type Result struct {
	Throughput *record.Throughput
	Quality    *record.Quality
	// StoreError is the reason why the records are not durable; the client received no Close 1000.
	StoreError error
}

// Serve runs the stream and closes its connection. store makes the records durable before the
// client receives Close 1000. Serve returns after at most MaxDuration, plus the time of store.
func Serve(ctx context.Context, t Stream, store func(*record.Throughput, *record.Quality) error) (result Result) {
	r := &run{Stream: t, reader: reader{t.Socket, t.Base}}
	t.Protocol, t.FirstMessage, t.Pace, t.Message, t.Take = "throughput1", firstMessage, pace, r.message, r.take
	t.Duration, t.Limit = t.Options.Duration, t.Options.Bytes
	end := session.Serve(ctx, t.Test, func(s session.Result) error {
		result = Result{Throughput: r.record(s), Quality: s.Quality}
		return store(result.Throughput, result.Quality)
	})
	result.StoreError = end.StoreError
	return result
}

// run collects the measurements of a stream.
type run struct {
	Stream
	reader reader

	mu             sync.Mutex // guards the following fields
	server, client []record.StreamMeasurement
	congestion     string // of an upload's client
}

// reader reads the counters of a socket since base.
type reader struct {
	socket socket.Socket
	base   socket.Counters
}

// wire reads a measurement.
func (r reader) wire(m session.Moment, t *session.Test) (w record.WireMeasurement, err error) {
	since := m.Start
	if !t.Accepted.IsZero() {
		since = t.Accepted
	}
	tcp, bbr, err := r.socket.Read(since)
	if err != nil {
		return w, err
	}
	bytes := socket.CountersOf(tcp)
	w.StreamMeasurement = record.StreamMeasurement{
		Application: record.ByteCounters{BytesSent: int64(m.Sent), BytesReceived: int64(m.Received)},
		Network:     record.ByteCounters{BytesSent: bytes.Written - r.base.Written, BytesReceived: bytes.Received - r.base.Received},
		ElapsedTime: m.Elapsed.Microseconds(), TCPInfo: tcp,
		BBRInfo: &record.BBRState{BW: bbr.BW, MinRTT: bbr.MinRTT, PacingGain: bbr.PacingGain, CwndGain: bbr.CwndGain},
	}
	if m.First {
		w.CC, w.UUID, w.LocalAddr, w.RemoteAddr = r.socket.Congestion(), t.UUID, t.Conn.LocalAddr().String(), t.Conn.RemoteAddr().String()
	}
	return w, nil
}

func (r *run) message(m session.Moment) []byte {
	w, err := r.reader.wire(m, &r.Test)
	if err != nil {
		return nil
	}
	text, err := json.Marshal(w)
	if err != nil {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.server = append(r.server, w.StreamMeasurement)
	return text
}

// congestionName matches names of congestion controls (TCP_CA_NAME_MAX is 16).
var congestionName = regexp.MustCompile(`^[a-z0-9_-]{1,15}$`)

func (r *run) take(text []byte) error {
	var w record.WireMeasurement
	if err := json.Unmarshal(text, &w); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.client) >= session.MaxKept {
		return nil
	}
	r.client = append(r.client, w.StreamMeasurement)
	if r.congestion == "" && congestionName.MatchString(w.CC) {
		r.congestion = w.CC
	}
	return nil
}

func (r *run) record(s session.Result) *record.Throughput {
	r.mu.Lock()
	defer r.mu.Unlock()
	v := &record.Throughput{
		GitShortCommit: r.Commit, Version: r.Version, Direction: r.Direction, MeasurementID: r.Options.MeasurementID, UUID: r.UUID,
		Server: r.Conn.LocalAddr().String(), Client: r.Conn.RemoteAddr().String(), CCAlgorithm: r.congestion, StartTime: s.Start, EndTime: s.End,
		ServerMeasurements: r.server, ClientMeasurements: r.client, ClientOptions: r.Options.Requested, ClientMetadata: r.Options.Metadata,
	}
	if r.Direction == record.Download {
		v.CCAlgorithm = s.Quality.CongestionControl
	}
	return v
}
