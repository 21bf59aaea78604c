// SPDX-License-Identifier: Apache-2.0

package ndt7

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"sync"

	"weir/measure/record"
	"weir/measure/session"
)

// Test is one test on the side of the server.
type Test struct {
	session.Test
	ClientMetadata  []record.NameValue
	ServerMetadata  []record.NameValue
	Version, Commit string
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
func Serve(ctx context.Context, t Test, store func(*record.NDT7, *record.Quality) error) (result Result) {
	r := &run{Test: t}
	t.Protocol, t.FirstMessage, t.Pace, t.Message, t.Take = "ndt7", firstMessage, pace, r.message, r.take
	if t.Duration == 0 {
		t.Duration = Duration
	}
	end := session.Serve(ctx, t.Test, func(s session.Result) error {
		result = Result{NDT7: r.record(s), Quality: s.Quality}
		return store(result.NDT7, result.Quality)
	})
	result.StoreError = end.StoreError
	return result
}

// run collects the measurements of a test.
type run struct {
	Test
	mu             sync.Mutex // guards the following fields
	server, client []record.Measurement
}

// message makes a measurement for the archive and its text.
func (r *run) message(m session.Moment) []byte {
	tcp, bbr, err := r.Socket.Read(m.Start)
	if err != nil {
		return nil
	}
	v := record.Measurement{
		AppInfo:        &record.AppInfo{NumBytes: int64(m.Payload(r.Direction)), ElapsedTime: m.Elapsed.Microseconds()},
		ConnectionInfo: &record.ConnectionInfo{Client: r.Conn.RemoteAddr().String(), Server: r.Conn.LocalAddr().String(), UUID: r.UUID, StartTime: m.Start.UTC()},
		BBRInfo:        bbr, TCPInfo: tcp, Origin: "server", Test: r.Direction,
	}
	text, err := json.Marshal(v)
	if err != nil {
		return nil
	}
	v.Origin, v.Test = "", "" // the archive has them as the record's member
	r.mu.Lock()
	defer r.mu.Unlock()
	r.server = append(r.server, v)
	return text
}

// take keeps the members of a bounded size. A client may not send ConnectionInfo, and Origin and
// Test are no members of the archive's schema.
func (r *run) take(text []byte) error {
	var c record.Measurement
	if err := json.Unmarshal(text, &c); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.client) >= session.MaxKept {
		return nil
	}
	r.client = append(r.client, record.Measurement{AppInfo: c.AppInfo, BBRInfo: c.BBRInfo, TCPInfo: c.TCPInfo})
	return nil
}

func (r *run) record(s session.Result) *record.NDT7 {
	r.mu.Lock()
	defer r.mu.Unlock()
	archival := &record.Archival{
		UUID: r.UUID, StartTime: s.Start, EndTime: s.End, ServerMeasurements: r.server, ClientMeasurements: r.client,
		ClientMetadata: r.ClientMetadata, ServerMetadata: r.ServerMetadata,
	}
	n := &record.NDT7{GitShortCommit: r.Commit, Version: r.Version, StartTime: r.Accepted.UTC(), EndTime: s.End}
	n.ServerIP, n.ServerPort = split(r.Conn.LocalAddr())
	n.ClientIP, n.ClientPort = split(r.Conn.RemoteAddr())
	if r.Direction == record.Download {
		n.Download = archival
	} else {
		n.Upload = archival
	}
	return n
}

func split(a net.Addr) (ip string, port int) {
	tcp, is := a.(*net.TCPAddr)
	if !is {
		return fmt.Sprint(a), 0
	}
	address := tcp.AddrPort()
	return address.Addr().Unmap().String(), int(address.Port())
}
