// SPDX-License-Identifier: Apache-2.0

package latency

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"time"

	"weir/measure/admission"
	"weir/measure/record"
)

// Options are the properties of a server. Gate and Store are needed.
type Options struct {
	Gate *admission.Gate
	// Store makes a record durable. outcome is "complete", "short" (the client fetched the result
	// before the end) or the reason of the failure.
	Store func(r *record.Latency, outcome string) error
	// Admit reserves the space of a record before its test; nil reserves none. release is called
	// after Store.
	Admit func() (release func(), err error)
	// Count counts a received datagram by its result: kickoff, echo, repeated, invalid or
	// unauthorized. It may be nil.
	Count func(result string)

	Version, Commit string

	// Duration and Grace replace the constants in tests; 0 keeps them.
	Duration, Grace time.Duration
}

// Sessions are the tests of a server. They are safe for concurrent use.
type Sessions struct {
	o      Options
	socket *socket
	ctx    context.Context // ends all tests
	stop   context.CancelFunc
	all    sync.WaitGroup // senders

	mu   sync.Mutex // guards open
	open map[key]*test
}

// key identifies a test: another client may have the same measurement ID.
type key struct {
	id     string
	client netip.Addr
}

// ErrUnknown reports that there is no such test, or that its result was fetched.
var ErrUnknown = errors.New("there is no such measurement of this address, or its result was fetched")

// ErrRunning reports a second authorization of a running test.
var ErrRunning = errors.New("a measurement with this ID runs or has a result: use another mid")

// ErrNoSpace reports that Admit failed; its reason is in the same chain.
var ErrNoSpace = errors.New("no space for the record")

// New serves tests on an open socket. Run it, then Close it.
func New(conn *net.UDPConn, o Options) (*Sessions, error) {
	socket, err := newSocket(conn)
	if err != nil {
		return nil, err
	}
	if o.Duration == 0 {
		o.Duration = Duration
	}
	if o.Grace == 0 {
		o.Grace = Grace
	}
	if o.Count == nil {
		o.Count = func(string) {}
	}
	s := &Sessions{o: o, socket: socket, open: map[key]*test{}}
	s.ctx, s.stop = context.WithCancel(context.Background())
	return s, nil
}

// Authorize opens a test of a client's address and returns the client's first datagram. uuid names
// the connection of the request. The error is ErrRunning, ErrNoSpace or an [*admission.Rejection].
func (s *Sessions) Authorize(id string, client netip.Addr, uuid string) (Packet, error) {
	k := key{id, client.Unmap().WithZone("")}
	first := Packet{Type: typeKickoff, ID: id}
	s.mu.Lock()
	defer s.mu.Unlock()
	if t, is := s.open[k]; is {
		if t.begun() {
			return first, ErrRunning
		}
		return first, nil // a repeated request
	}
	release, _, rejection := s.o.Gate.Admit(k.client, Keep)
	if rejection != nil {
		return first, rejection
	}
	free := func() {}
	if s.o.Admit != nil {
		var err error
		if free, err = s.o.Admit(); err != nil {
			release()
			return first, fmt.Errorf("%w: %w", ErrNoSpace, err)
		}
	}
	t := &test{key: k, uuid: uuid, ended: make(chan struct{})}
	t.fetched, t.fetch = context.WithCancel(s.ctx)
	s.open[k] = t
	t.expire = func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.open[k] == t {
			delete(s.open, k)
			t.timer.Stop()
			t.fetch()
			free()
			release()
		}
	}
	t.timer = time.AfterFunc(startTime, func() {
		if t.close() { // no datagram arrived
			t.expire()
		}
	})
	return first, nil
}

// Run reads datagrams until Close.
func (s *Sessions) Run() error {
	for {
		d, err := s.socket.next()
		switch {
		case errors.Is(err, net.ErrClosed):
			return nil
		case err != nil:
			continue // an ICMP error of an earlier datagram
		}
		s.o.Count(s.take(d))
	}
}

// take handles a datagram and returns the label of its result.
func (s *Sessions) take(d datagram) string {
	p, err := parse(d.payload)
	if err != nil {
		return "invalid"
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.open[key{p.ID, d.from.Addr().WithZone("")}]
	switch {
	case t == nil:
		return "unauthorized"
	case p.Type == typeProbe:
		return t.echo(d.from, p.Seq, d.at)
	case !t.begin(d.from, d.to):
		return "repeated"
	}
	t.timer.Stop()
	t.timer = time.AfterFunc(Keep, t.expire)
	s.all.Go(func() { s.run(t) })
	return "kickoff"
}

// run sends the datagrams of a test, stores its record, and keeps the result.
func (s *Sessions) run(t *test) {
	ctx, cancel := context.WithTimeout(t.fetched, s.o.Duration)
	defer cancel()
	for ctx.Err() == nil {
		if text, err := json.Marshal(t.next()); err == nil {
			t.stamp()
			// A full queue of the interface loses the datagram as any other queue does.
			_ = s.socket.send(text, t.server, t.peer)
		}
		pause := pace.Pause()
		if t.unanswered() {
			pause = slowPause
		}
		sleep(ctx, pause)
	}
	sleep(t.fetched, s.o.Grace)
	r, outcome := t.record(s.o, t.fetched.Err() != nil)
	t.lost = s.o.Store(r, outcome)
	close(t.ended)
}

// sleep waits for d or until ctx ends.
func sleep(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}

// Result ends a test, and returns its result after the record is durable. The error is ErrUnknown,
// that of ctx, or the reason why the record is lost.
func (s *Sessions) Result(ctx context.Context, id string, client netip.Addr) (record.LatencySummary, error) {
	s.mu.Lock()
	t := s.open[key{id, client.Unmap().WithZone("")}]
	s.mu.Unlock()
	if t == nil {
		return record.LatencySummary{}, ErrUnknown
	}
	if t.close() { // nothing was measured
		t.expire()
		return record.LatencySummary{ID: id, RoundTrips: []record.RoundTrip{}}, nil
	}
	t.fetch()
	select {
	case <-t.ended:
	case <-ctx.Done():
		return record.LatencySummary{}, ctx.Err()
	}
	t.expire()
	return t.summary(), t.lost
}

// Running returns the number of tests that send or keep a result.
func (s *Sessions) Running() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.open)
}

// Drain refuses new tests, and ends those without a datagram from their client. The channel is
// closed after all running tests have stored their records. Results can be fetched until Close.
func (s *Sessions) Drain() (stored <-chan struct{}) {
	s.o.Gate.Drain()
	s.mu.Lock()
	var unused []*test
	for _, t := range s.open {
		if t.close() { // no test begins after this
			unused = append(unused, t)
		}
	}
	s.mu.Unlock()
	for _, t := range unused {
		t.expire()
	}
	ended := make(chan struct{})
	go func() { s.all.Wait(); close(ended) }()
	return ended
}

// Close ends all tests, stores their records, and closes the socket. A second call has no effect.
func (s *Sessions) Close() error {
	s.o.Gate.Drain()
	s.mu.Lock()
	for _, t := range s.open {
		t.close() // no test begins after this
	}
	s.mu.Unlock()
	s.stop()
	s.all.Wait()
	if err := s.socket.Close(); !errors.Is(err, net.ErrClosed) {
		return err
	}
	return nil
}
