// SPDX-License-Identifier: Apache-2.0

package latency

import (
	"context"
	"net/netip"
	"slices"
	"sync"
	"time"

	"weir/measure/record"
)

// test is an authorized test.
type test struct {
	key
	uuid    string
	fetched context.Context // ends when the result is fetched or the server stops
	fetch   context.CancelFunc
	expire  func()        // removes the test
	timer   *time.Timer   // guarded by Sessions.mu
	ended   chan struct{} // closed after the record is stored
	lost    error         // of the record; readable after ended

	mu           sync.Mutex // guards the following fields
	closed       bool       // no test may begin
	peer, server netip.AddrPort
	start        time.Time
	sent         []time.Time // by sequence number
	trips        []record.RoundTrip
	received     int
	last         int // µs, RTT of the newest echo
}

// begin starts the test with the client's address and port; false if it has begun or may not.
func (t *test) begin(peer, server netip.AddrPort) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return false
	}
	t.closed = true
	t.peer, t.server, t.start = peer, server, time.Now()
	return true
}

// close prevents the begin of a test; false if it has begun.
func (t *test) close() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.closed = true
	return t.start.IsZero()
}

func (t *test) begun() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.closed
}

// next returns the next datagram to send. Only the sender calls it.
func (t *test) next() Packet {
	t.mu.Lock()
	defer t.mu.Unlock()
	return Packet{Type: typeProbe, ID: t.id, Seq: len(t.sent), LastRTT: t.last}
}

// stamp notes that the next datagram is sent now. It is lost until an echo arrives.
func (t *test) stamp() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.trips = append(t.trips, record.RoundTrip{Lost: true})
	t.sent = append(t.sent, time.Now())
}

// unanswered reports whether a client without any echo got its share of datagrams.
func (t *test) unanswered() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.received == 0 && len(t.sent) >= freeDatagrams
}

// echo takes an echo and returns the label of its result.
func (t *test) echo(from netip.AddrPort, seq int, at time.Time) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case from != t.peer: // also before the test begins
		return "unauthorized"
	case seq < 0 || seq >= len(t.sent):
		return "invalid"
	case !t.trips[seq].Lost:
		return "repeated"
	}
	t.last = max(int(at.Sub(t.sent[seq]).Microseconds()), 0)
	t.trips[seq] = record.RoundTrip{RTT: t.last}
	t.received++
	return "echo"
}

// record returns the record and the outcome of a test.
func (t *test) record(o Options, early bool) (r *record.Latency, outcome string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	end := t.start.Add(time.Since(t.start)) // the clock may have been set
	switch outcome = "complete"; {
	case t.received == 0:
		outcome = "the client echoed no datagram"
	case early && end.Sub(t.start) < o.Duration*9/10:
		outcome = "short"
	}
	return &record.Latency{
		GitShortCommit: o.Commit, Version: o.Version, ID: t.id, UUID: t.uuid, Client: t.peer.String(), Server: t.server.String(),
		StartTime: t.start.UTC(), EndTime: end.UTC(), RoundTrips: slices.Clone(t.trips), PacketsSent: len(t.trips), PacketsReceived: t.received,
	}, outcome
}

func (t *test) summary() record.LatencySummary {
	t.mu.Lock()
	defer t.mu.Unlock()
	return record.LatencySummary{ID: t.id, StartTime: t.start.UTC(), RoundTrips: slices.Clone(t.trips), PacketsSent: len(t.trips), PacketsReceived: t.received}
}
