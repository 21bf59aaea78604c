// SPDX-License-Identifier: Apache-2.0

package native

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"weir/internal/wait"
	"weir/kernel/congestion"
	"weir/lab/traffic"
	"weir/lab/traffic/workload"
	"weir/record/hist"
)

// maxBacklog is the listener's backlog of connections.
const maxBacklog = 4096

// openLoop is a flow of transfers: each opens its own connection when it is due, independently of
// earlier ones. It uses its session's listener and the methods for one connection.
type openLoop struct {
	session
	from   traffic.Endpoint
	plan   []workload.Arrival
	cancel context.CancelFunc // ends the flow

	meter    meter          // guarded by mu, like the fields below
	stream   traffic.Stream // sum over all ended connections
	srtt     time.Duration  // sum of the round-trip times in rtt
	timeouts uint64
	control  string // congestion control of the first connection
	failed   error  // first failure
}

// runTransfers runs a flow of transfers and fills in result.
func (g *Generator) runTransfers(ctx context.Context, result *traffic.Result, from, to traffic.Endpoint) error {
	f := result.Flow
	l := &openLoop{session: session{flow: f, rtt: new(hist.Histogram), byPort: map[netip.AddrPort]*connection{}},
		from: from, plan: f.Load.Plan(f.Duration)}
	var err error
	if l.listener, err = listen(to, optionsOf(f), maxBacklog); err != nil {
		return err
	}
	defer l.listener.close()
	if l.target, err = l.listener.local(); err != nil {
		return err
	}
	if err := wait.For(ctx, f.Start); err != nil {
		return err
	}
	watch, err := g.watch(f, from, to)
	if err != nil {
		return err
	}
	result.Transfers = l.run(ctx)
	recoveries, exact := watch.end()
	l.fill(result, recoveries, exact)
	return nil
}

// run begins every transfer when it is due, waits for the flow's end and returns the transfers that
// have begun.
func (l *openLoop) run(ctx context.Context) []traffic.Transfer {
	l.begin = time.Now()
	l.meter = newMeter(l.begin, l.flow.Duration)
	ctx, l.cancel = within(ctx, l.begin, l.flow.Duration)
	defer l.cancel()
	defer context.AfterFunc(ctx, l.listener.interrupt)()
	var accepting, moving sync.WaitGroup
	accepting.Go(func() { l.broke(l.accept()) })
	begun := make([]traffic.Transfer, 0, len(l.plan)) // never grown: each transfer has a pointer into it
	for _, arrival := range l.plan {
		c, err := l.next(ctx)
		if err != nil {
			l.broke(err)
			break
		}
		if wait.For(ctx, time.Until(l.begin.Add(arrival.At))) != nil {
			l.release(c, false)
			break
		}
		begun = append(begun, traffic.Transfer{Octets: arrival.Octets, Due: arrival.At})
		transfer := &begun[len(begun)-1]
		moving.Go(func() { l.move(c, transfer) })
	}
	<-ctx.Done()
	moving.Wait()
	accepting.Wait()
	if n := len(begun); n < len(l.plan) && l.plan[n].At < l.flow.Duration-traffic.MaxLate {
		l.broke(fmt.Errorf("%d of %d transfers began before the flow's end: this machine had no time for more", n, len(l.plan)))
	}
	return begun
}

// next makes the socket of the next connection, before it is due.
func (l *openLoop) next(ctx context.Context) (*connection, error) {
	client, err := open(l.from, optionsOf(l.flow))
	if err != nil {
		return nil, err
	}
	local, err := client.local()
	if err != nil {
		client.close()
		return nil, err
	}
	c := &connection{client: client, accepted: make(chan struct{}), local: local}
	c.over, c.stop = context.WithCancel(ctx)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.byPort[local] = c
	if l.control == "" {
		_ = client.control(func(fd int) error {
			l.control = congestion.Of(fd)
			return nil
		})
	}
	return c, nil
}

// move is a transfer from its connect call to its end.
func (l *openLoop) move(c *connection, transfer *traffic.Transfer) {
	stop := context.AfterFunc(c.over, func() { l.interrupt(c) })
	transfer.Begun = time.Since(l.begin)
	err := l.carry(c, transfer)
	stop()
	l.account(c)
	l.release(c, err == nil)
	if err != nil {
		err = fmt.Errorf("transfer of %d bytes at %s: %w", transfer.Octets, transfer.Begun, err)
	}
	l.broke(err)
}

// carry connects and moves the data in both ends' goroutines.
func (l *openLoop) carry(c *connection, transfer *traffic.Transfer) error {
	defer c.stop()
	if err := c.client.connect(l.target); err != nil {
		return fmt.Errorf("connect to %s: %w", l.target, err)
	}
	nearErr := make(chan error, 1)
	go func() {
		err := give(c.client, transfer.Octets)
		if err != nil {
			c.stop()
		}
		nearErr <- err
	}()
	farErr := awaitAccept(c)
	if farErr == nil {
		farErr = l.take(c.server, transfer)
	}
	if farErr != nil {
		c.stop()
	}
	if err := <-nearErr; err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
		return err
	}
	return farErr
}

// give sends the data and a FIN, and waits for the receiver's FIN.
func give(s *socket, octets uint64) error {
	if err := writeAll(s, octets); err != nil {
		return err
	}
	if err := s.finish(); err != nil {
		return err
	}
	return awaitEnd(s)
}

// take reads the data, records their time, and answers the sender's FIN.
func (l *openLoop) take(s *socket, transfer *traffic.Transfer) error {
	if err := readAll(s, transfer.Octets, l.count); err != nil {
		return err
	}
	transfer.Took = time.Since(l.begin) - transfer.Begun
	if err := awaitEnd(s); err != nil {
		return err
	}
	return s.finish()
}

// awaitEnd waits for the end of the other side's data.
func awaitEnd(s *socket) error {
	n, err := s.discard(1)
	if err == nil && n > 0 {
		err = errors.New("more bytes arrived than were sent")
	}
	return err
}

func (l *openLoop) count(now time.Time, n int) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.meter.add(now, n)
}

// account adds the connection's final TCP_INFO.
func (l *openLoop) account(c *connection) {
	info, err := c.client.info()
	if err != nil {
		return // as in observe
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	c.tally.observe(info)
	c.tally.into(&l.stream)
	l.timeouts += c.tally.timeouts()
	if info.Rtt > 0 {
		l.rtt.Record(uint64(info.SRTT()))
		l.srtt += info.SRTT()
	}
}

// release closes the connection: a complete one after its handshake of FINs, any other with a RST.
func (l *openLoop) release(c *connection, complete bool) {
	c.stop()
	l.mu.Lock()
	delete(l.byPort, c.local)
	server := c.server
	l.mu.Unlock()
	for _, s := range []*socket{c.client, server} {
		switch {
		case s == nil:
		case complete:
			s.close()
		default:
			s.abort()
		}
	}
}

// broke ends the flow with an error.
func (l *openLoop) broke(err error) {
	if err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		return
	}
	if errors.Is(err, unix.EMFILE) {
		err = fmt.Errorf("%w: so many transfers are under way at once; lower the load, or raise the limit (ulimit -n)", err)
	}
	if errors.Is(err, io.ErrUnexpectedEOF) {
		err = fmt.Errorf("%w: the sender ended early", err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.failed == nil {
		l.failed = err
	}
	l.cancel()
}

// fill writes the flow's figures into result.
func (l *openLoop) fill(result *traffic.Result, recoveries uint64, exact bool) {
	l.meter.into(&l.stream)
	if n := l.rtt.Count(); n > 0 {
		l.stream.MeanRTT = l.srtt / time.Duration(n)
	}
	result.Streams = []traffic.Stream{l.stream}
	result.RTT, result.Congestion = l.rtt, l.control
	if exact {
		apportion(result.Streams, recoveries, []uint64{l.timeouts})
		result.LossEventsExact = true
	}
	if l.failed != nil {
		result.Failed = l.failed.Error()
	}
}
