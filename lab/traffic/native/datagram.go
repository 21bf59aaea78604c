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

	"golang.org/x/sys/unix"

	"weir/internal/fault"
	"weir/internal/units"
	"weir/internal/wait"
	"weir/lab/traffic"
	"weir/record/hist"
)

const (
	// receiveBuffer is the requested buffer of datagram receivers, in bytes: drops of a busy CPU
	// would look like path loss.
	receiveBuffer = 8 << 20
	// drainLeast and drainMost bound the wait for datagrams in flight after the last one was sent.
	drainLeast = 250 * time.Millisecond
	drainMost  = 2 * time.Second
)

// datagrams is one stream of a UDP flow with both of its ends.
type datagrams struct {
	client, server *socket
	target         netip.AddrPort
	sent           uint64 // the sender owns it until it has ended
	arrivals       arrivals
	meter          meter
	drops          uint64
}

// runDatagrams runs a UDP flow and fills in result.
func (g *Generator) runDatagrams(ctx context.Context, result *traffic.Result, from, to traffic.Endpoint) error {
	f := result.Flow
	streams := make([]*datagrams, 0, f.Streams)
	defer func() {
		for _, d := range streams {
			d.close()
		}
	}()
	for range f.Streams {
		d, err := openDatagrams(f, from, to)
		if err != nil {
			return err
		}
		streams = append(streams, d)
	}
	if err := wait.For(ctx, f.Start); err != nil {
		return err
	}
	begin := time.Now()
	during, cancel := within(ctx, begin, f.Duration)
	defer cancel()
	errs := make([]error, len(streams))
	var all sync.WaitGroup
	for i, d := range streams {
		all.Go(func() {
			if err := d.run(ctx, during, f, begin); err != nil {
				errs[i] = fmt.Errorf("stream %d: %w", i+1, err)
			}
		})
	}
	all.Wait()
	result.Delay = new(hist.Histogram)
	for _, d := range streams {
		result.Streams = append(result.Streams, d.stream())
		result.Delay.Merge(&d.arrivals.delay)
	}
	result.Failed = summary(errs)
	return nil
}

func openDatagrams(f traffic.Flow, from, to traffic.Endpoint) (d *datagrams, err error) {
	d = new(datagrams)
	defer func() {
		if err != nil {
			d.close()
		}
	}()
	if d.server, err = open(to, optionsOf(f)); err != nil {
		return nil, err
	}
	if d.target, err = d.server.local(); err != nil {
		return nil, err
	}
	if err := d.server.control(growReceiveBuffer); err != nil {
		return nil, err
	}
	if d.client, err = open(from, optionsOf(f)); err != nil {
		return nil, err
	}
	if err := d.client.connect(d.target); err != nil {
		return nil, fmt.Errorf("connect to %s: %w", d.target, err)
	}
	return d, d.client.control(func(fd int) error { return fitsMTU(fd, f.Payload, d.target.Addr()) })
}

func growReceiveBuffer(fd int) error {
	err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, receiveBuffer)
	if errors.Is(err, unix.EPERM) {
		err = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUF, receiveBuffer)
	}
	if err != nil {
		return fmt.Errorf("set receive buffer: %w", err)
	}
	return nil
}

// fitsMTU rejects payloads that would be fragmented, and forbids fragmentation.
func fitsMTU(fd, payload int, to netip.Addr) error {
	level, option, discover, header := unix.IPPROTO_IP, unix.IP_MTU, unix.IP_MTU_DISCOVER, 20+8
	if !to.Unmap().Is4() {
		level, option, discover, header = unix.IPPROTO_IPV6, unix.IPV6_MTU, unix.IPV6_MTU_DISCOVER, 40+8
	}
	if err := unix.SetsockoptInt(fd, level, discover, unix.IP_PMTUDISC_DO); err != nil {
		return fmt.Errorf("forbid fragments: %w", err)
	}
	mtu, err := unix.GetsockoptInt(fd, level, option)
	if err != nil {
		return fmt.Errorf("read the path's MTU: %w", err)
	}
	if payload+header > mtu {
		return fault.New(fault.Usage, fmt.Sprintf("Use a payload of at most %d bytes, or a larger MTU.", mtu-header),
			"a payload of %d bytes does not fit the path's MTU of %d", payload, mtu)
	}
	return nil
}

// run sends during the flow and receives until no datagram is in flight.
func (d *datagrams) run(ctx, during context.Context, f traffic.Flow, begin time.Time) error {
	each := f.Rate / units.BitRate(f.Streams)
	schedule := newSchedule(each, f.Payload, f.Duration)
	d.meter = newMeter(begin, f.Duration)
	d.arrivals = newArrivals(schedule.total)
	defer context.AfterFunc(ctx, d.server.interrupt)()
	received := make(chan error, 1)
	go func() { received <- d.receive(begin) }()
	sent, err := d.transmit(during, schedule, f.Payload, begin)
	d.sent = sent
	if err == nil {
		err = d.drain(ctx, received)
	} else {
		d.server.interrupt()
		<-received
	}
	d.drops = socketDrops(d.server)
	return err
}

// drain ends the receiver once all datagrams have arrived, or after twice the longest delay seen.
func (d *datagrams) drain(ctx context.Context, received <-chan error) error {
	end := time.Now()
	for ctx.Err() == nil && d.arrivals.count.Load() < d.sent {
		longest := time.Duration(d.arrivals.longest.Load())
		if time.Since(end) > min(max(2*longest, drainLeast), drainMost) {
			break
		}
		_ = wait.For(ctx, 5*time.Millisecond)
	}
	d.server.interrupt()
	if err := <-received; err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
		return fmt.Errorf("receive: %w", err)
	}
	return nil
}

// socketDrops is the number of datagrams dropped at the socket's full buffer (SO_MEMINFO,
// SK_MEMINFO_DROPS in linux/sock_diag.h).
func socketDrops(s *socket) uint64 {
	var drops uint64
	_ = s.control(func(fd int) error {
		info, err := memInfo(fd)
		drops = uint64(info[memInfoDrops])
		return err
	})
	return drops
}

func (d *datagrams) stream() traffic.Stream {
	s := traffic.Stream{
		Sent: d.sent, Arrived: d.arrivals.count.Load(),
		Duplicates: d.arrivals.duplicates, OutOfOrder: d.arrivals.outOfOrder, ReceiverDrops: d.drops,
	}
	d.meter.into(&s)
	return s
}

func (d *datagrams) close() {
	for _, s := range []*socket{d.client, d.server} {
		if s != nil {
			s.close()
		}
	}
}
