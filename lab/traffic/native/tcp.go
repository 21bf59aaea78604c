// SPDX-License-Identifier: Apache-2.0

package native

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"sync"
	"time"

	"weir/internal/wait"
	"weir/lab/traffic"
	"weir/record/hist"
)

// session is a TCP flow: a listener at its receiving host and connections from its sending host,
// all made before it begins. [openLoop] handles transfers.
type session struct {
	flow        traffic.Flow
	begin       time.Time
	done        <-chan struct{} // closed when the flow is over
	listener    *socket
	target      netip.AddrPort
	connections []*connection
	rtt         *hist.Histogram // the sampler owns it until it has ended

	mu        sync.Mutex
	byPort    map[netip.AddrPort]*connection // not yet accepted, by the client's address; guarded by mu
	exchanges *hist.Histogram                // guarded by mu
}

// connection is one TCP connection of a session with both of its ends.
type connection struct {
	stream   int
	client   *socket
	local    netip.AddrPort // the client's
	server   *socket        // set before accepted is closed
	accepted chan struct{}  // closed once the listener has the connection
	// over ends every wait on the connection: with the flow, or by stop when an end has failed.
	over  context.Context
	stop  context.CancelFunc
	meter meter   // owned by the receiving goroutine
	tally tally   // owned by the sampler
	came  arrived // owned by the sampler, for receivers of bulk flows
}

// runTCP runs a bulk or request flow and fills in result.
func (g *Generator) runTCP(ctx context.Context, result *traffic.Result, from, to traffic.Endpoint) error {
	s, err := prepare(result.Flow, from, to)
	if err != nil {
		return err
	}
	defer s.close()
	if err := wait.For(ctx, s.flow.Start); err != nil {
		return err
	}
	watch, err := g.watch(s.flow, from, to)
	if err != nil {
		return err
	}
	errs := s.run(ctx)
	recoveries, exact := watch.end()
	s.fill(result, recoveries, exact)
	result.Failed = summary(errs)
	return nil
}

// prepare opens the session's sockets, so that at the flow's start only the handshakes remain.
func prepare(f traffic.Flow, from, to traffic.Endpoint) (*session, error) {
	o := optionsOf(f)
	each := 1
	if f.Kind == traffic.Request {
		each = f.Concurrency
	}
	s := &session{flow: f, rtt: new(hist.Histogram), byPort: make(map[netip.AddrPort]*connection)}
	if f.Kind == traffic.Request {
		s.exchanges = new(hist.Histogram)
	}
	var err error
	if s.listener, err = listen(to, o, f.Streams*each); err != nil {
		return nil, err
	}
	if s.target, err = s.listener.local(); err != nil {
		s.close()
		return nil, err
	}
	for i := range f.Streams * each {
		if err := s.add(i/each, from, o); err != nil {
			s.close()
			return nil, err
		}
	}
	return s, nil
}

func (s *session) add(stream int, from traffic.Endpoint, o options) error {
	client, err := open(from, o)
	if err != nil {
		return err
	}
	c := &connection{stream: stream, client: client, accepted: make(chan struct{})}
	s.connections = append(s.connections, c)
	local, err := client.local()
	if err != nil {
		return err
	}
	c.local = local
	s.byPort[local] = c
	return nil
}

// run moves the data until the flow is over and returns the errors, by connection.
func (s *session) run(ctx context.Context) []error {
	s.begin = time.Now()
	ctx, cancel := within(ctx, s.begin, s.flow.Duration)
	defer cancel()
	s.done = ctx.Done()
	defer context.AfterFunc(ctx, s.listener.interrupt)()
	for _, c := range s.connections {
		c.meter = newMeter(s.begin, s.flow.Duration)
		c.over, c.stop = context.WithCancel(ctx)
		context.AfterFunc(c.over, func() { s.interrupt(c) })
	}
	var helpers, workers sync.WaitGroup
	helpers.Go(func() { _ = s.accept() })
	helpers.Go(s.sample)
	errs := make([]error, len(s.connections))
	for i, c := range s.connections {
		workers.Go(func() {
			if err := s.work(c); err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
				errs[i] = fmt.Errorf("stream %d: %w", c.stream+1, err)
			}
		})
	}
	workers.Wait()
	cancel()
	helpers.Wait()
	return errs
}

// work connects and moves data in both ends' goroutines. An end that fails stops the other; the
// first cause is returned.
func (s *session) work(c *connection) error {
	defer c.stop()
	if err := c.client.connect(s.target); err != nil {
		if errors.Is(err, os.ErrDeadlineExceeded) {
			return fmt.Errorf("connect to %s: no handshake within %s", s.target, s.flow.Duration)
		}
		return fmt.Errorf("connect to %s: %w", s.target, err)
	}
	near, far := s.send, receive
	if s.flow.Kind == traffic.Request {
		near, far = s.ask, s.serve
	}
	nearErr := make(chan error, 1)
	go func() {
		err := near(c)
		if err != nil {
			c.stop()
		}
		nearErr <- err
	}()
	farErr := awaitAccept(c)
	if farErr == nil {
		farErr = far(c)
	}
	if farErr != nil {
		c.stop()
	}
	if err := <-nearErr; err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
		return err
	}
	return farErr
}

// awaitAccept waits until the receiving host has the connection too: its part of the handshake may
// be lost.
func awaitAccept(c *connection) error {
	select {
	case <-c.accepted:
		return nil
	case <-c.over.Done():
		return os.ErrDeadlineExceeded
	}
}

// accept passes new connections to their waiting senders, until the listener is interrupted or
// fails.
func (s *session) accept() error {
	for {
		server, peer, err := s.listener.accept()
		if err != nil {
			return err
		}
		s.mu.Lock()
		c := s.byPort[peer]
		delete(s.byPort, peer)
		if c == nil {
			s.mu.Unlock()
			server.abort()
			continue
		}
		c.server = server
		close(c.accepted)
		if c.over.Err() != nil {
			server.interrupt()
		}
		s.mu.Unlock()
	}
}

// interrupt ends every wait on the connection's sockets.
func (s *session) interrupt(c *connection) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c.client.interrupt()
	if c.server != nil {
		c.server.interrupt()
	}
}

// close resets every connection and closes the sockets after their last use.
func (s *session) close() {
	s.listener.close()
	for _, c := range s.connections {
		c.client.abort()
		if c.server != nil {
			c.server.abort()
		}
	}
}
