// SPDX-License-Identifier: Apache-2.0

// Package packet sends schedules of test frames through AF_XDP: up to 9000 octets in several
// buffers, at precise times.
//
// One thread makes the frames and sends them. It sleeps until 80 µs before a frame is due and
// busy-waits for the rest, so a sparse schedule leaves the CPU to others and is at most some µs
// late on a quiet machine.
//
// Pitfalls:
//   - Copy mode costs about 1 µs per frame; a frame leaves that much after its stamp.
//   - The schedule ends with this process, at its deadline or frame limit, with ctx or with Stop:
//     the process makes every frame.
//   - Frames over 4096 octets need Linux 6.6, and a receiving XDP program must support several
//     buffers ("xdp.frags").
//   - One socket holds queue 0 of the device; a second generator on it waits two seconds and fails
//     with EBUSY.
package packet

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"weir/internal/fault"
	"weir/kernel/clock"
	"weir/kernel/rtnl"
	"weir/kernel/xsk"
	"weir/tester"
	"weir/tester/frame"
	"weir/tester/tai"
)

// Mechanism is this mechanism's name in tester.Generation.
const Mechanism = "AF_XDP"

const (
	bufferSize  = 4096
	buffers     = 2048
	ringSize    = 1024
	batchFrames = 64 // sent together unless a gap requires otherwise
)

// engine is a schedule being sent. All fields except stop, ask and done belong to its thread.
type engine struct {
	port     Port
	schedule tester.Schedule
	plan     []frame.Planned
	*scheduler
	sleeper
	offset  uint64 // TAI
	started uint64 // CLOCK_MONOTONIC
	refused uint64
	batch   int
	queued  int    // frames since the last kick
	buffer  []byte // buffer for a frame in several buffers
	umem    *xsk.Umem
	socket  *xsk.Socket

	stop   atomic.Bool
	ask    chan chan tester.Generation
	done   chan struct{}
	result tester.Generation // valid once done is closed
	err    error
}

// Start checks the schedule and starts to send it.
func Start(ctx context.Context, port Port, schedule tester.Schedule) (Running, error) {
	plan, err := frame.Plan(schedule)
	if err != nil {
		return nil, err
	}
	e := &engine{
		port: port, schedule: schedule, plan: plan, scheduler: newScheduler(schedule, plan), buffer: make([]byte, frame.MaxSize),
		ask: make(chan chan tester.Generation), done: make(chan struct{}), batch: schedule.Batch,
	}
	if _, full := frame.Rate(plan); e.batch == 0 {
		e.batch = 1
		if full {
			e.batch = batchFrames
		}
	}
	e.batch = min(e.batch, batchFrames)
	opened := make(chan error)
	go e.hold(opened)
	if err := <-opened; err != nil {
		return nil, err
	}
	go func() {
		select {
		case <-ctx.Done():
			e.Stop()
		case <-e.done:
		}
	}()
	return e, nil
}

// hold opens the socket and runs the schedule on one thread, which ends with it because its CPU
// settings differ.
func (e *engine) hold(opened chan<- error) {
	runtime.LockOSThread()
	err := e.open()
	opened <- err
	if err != nil {
		return
	}
	ended, err := e.run()
	e.settle()
	e.result = e.generation()
	e.result.Ended = ended
	if err != nil {
		e.result.Ended = err.Error()
	}
	e.err = errors.Join(err, e.close())
	close(e.done)
}

func (e *engine) open() (err error) {
	conn, err := rtnl.Open(e.port.Namespace)
	if err != nil {
		return err
	}
	defer conn.Close()
	device, err := conn.Device(e.port.Device)
	if err != nil {
		return fault.Wrap(err, fault.Usage, "name a device of that namespace: ip link")
	}
	if err := Pin(e.port.CPUs); err != nil {
		return err
	}
	if err := unix.Prctl(unix.PR_SET_TIMERSLACK, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("set timer slack: %w", err)
	}
	if e.Monotonic, err = clock.New(); err != nil {
		return err
	}
	offset, err := tai.Offset()
	if err != nil {
		return err
	}
	e.offset = uint64(offset)
	if e.umem, err = xsk.NewUmem(buffers, bufferSize); err != nil {
		return err
	}
	err = e.port.Namespace.Do(func() (err error) {
		e.socket, err = xsk.Open(e.umem, device.Index, 0, xsk.Options{Transmit: ringSize, MultiBuffer: e.jumbo()})
		return err
	})
	if err != nil {
		return errors.Join(fault.Wrap(err, fault.Testbed, "run 'weir doctor' to see whether this kernel has AF_XDP"), e.close())
	}
	return nil
}

func (e *engine) jumbo() bool {
	for _, p := range e.plan {
		for _, t := range p.Templates {
			if len(t.Octets) > bufferSize {
				return true
			}
		}
	}
	return false
}

func (e *engine) close() error {
	var all []error
	if e.socket != nil {
		all = append(all, e.socket.Close())
	}
	if e.umem != nil {
		all = append(all, e.umem.Close())
	}
	return errors.Join(all...)
}

func (e *engine) generation() tester.Generation {
	return tester.Generation{
		Mechanism: Mechanism, Sent: append([]tester.Sent(nil), e.sent...), Refused: e.refused,
		LateAfter: LateAfter, Lateness: e.lateness.Clone(),
	}
}

// Progress returns the frames sent so far. It waits for the sending thread, which sleeps for at
// most 20 ms.
func (e *engine) Progress() tester.Generation {
	reply := make(chan tester.Generation, 1)
	select {
	case e.ask <- reply:
		return <-reply
	case <-e.done:
		return e.result
	}
}

// Wait waits for the end.
func (e *engine) Wait() (tester.Generation, error) {
	<-e.done
	return e.result, e.err
}

// Stop ends the run.
func (e *engine) Stop() { e.stop.Store(true) }
