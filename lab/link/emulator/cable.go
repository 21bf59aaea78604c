// SPDX-License-Identifier: Apache-2.0

package emulator

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"weir/kernel/clock"
	"weir/kernel/netns"
	"weir/kernel/rtnl"
	"weir/kernel/xsk"
	"weir/lab/link"
)

const (
	maxParts  = 4 // buffers of the largest frame
	idleWait  = 100 * time.Millisecond
	retryWait = 20 * time.Microsecond // until the device is tried again that takes no more
	ringSize  = 4096
	slowRing  = 2048 // for rates up to slowRate
	slowRate  = 100e6
)

// cable moves the frames of one cable. Its run method owns everything but the fields under
// "control".
type cable struct {
	name      string
	umem      *xsk.Umem
	sockets   [2]*xsk.Socket
	redirects [2]*xsk.Redirect
	store     store
	ways      [2]*way
	clock     clock.Monotonic
	spin      int64 // ns before a departure from which the thread does not sleep
	poll      [3]unix.PollFd
	timeout   unix.Timespec

	// control: another goroutine asks, wakes the thread, and reads published after an answer.
	wake      int // eventfd
	stop, ask atomic.Bool
	forget    atomic.Bool // with ask: resets the maximum backlog
	answer    chan struct{}
	published [2]link.Counters
	trace     atomic.Pointer[capture] // nil without one
}

// openCable makes sockets on the cable's two ends and brings their frames there. ns is the
// carrier's namespace.
func openCable(ns *netns.Namespace, order cableOrder, spin time.Duration) (*cable, error) {
	c := &cable{name: order.Name, spin: int64(spin), wake: -1, answer: make(chan struct{}, 1)}
	if err := ns.Do(func() error { return c.open(ns, order) }); err != nil {
		c.close()
		return nil, fmt.Errorf("cable %s: %w", order.Name, err)
	}
	return c, nil
}

func (c *cable) open(ns *netns.Namespace, order cableOrder) (err error) {
	if c.wake, err = unix.Eventfd(0, unix.EFD_NONBLOCK|unix.EFD_CLOEXEC); err != nil {
		return fmt.Errorf("make event descriptor: %w", err)
	}
	conn, err := rtnl.Open(nil)
	if err != nil {
		return err
	}
	defer conn.Close()
	if c.clock, err = clock.New(); err != nil {
		return err
	}
	var indexes [2]int
	for i, dev := range []string{order.A, order.B} {
		device, err := conn.Device(dev)
		if err != nil {
			return err
		}
		indexes[i] = device.Index
	}
	if c.umem, err = xsk.NewUmem(order.Buffers, order.BufferSize); err != nil {
		return err
	}
	for i, index := range indexes {
		options := xsk.Options{Receive: order.Ring, Transmit: order.Ring, MultiBuffer: order.Jumbo}
		if c.sockets[i], err = xsk.Open(c.umem, index, 0, options); err != nil {
			return err
		}
		c.sockets[i].Fill()
		c.poll[i] = unix.PollFd{Fd: int32(c.sockets[i].FD()), Events: unix.POLLIN}
	}
	c.poll[2] = unix.PollFd{Fd: int32(c.wake), Events: unix.POLLIN}
	c.store = newStore(c.umem, order.Jumbo)
	c.ways[0] = newWay(c.sockets[0], c.sockets[1], &c.store, order.Forward.direction(), order.Ring)
	c.ways[1] = newWay(c.sockets[1], c.sockets[0], &c.store, order.Reverse.direction(), order.Ring)
	c.ways[0].trace, c.ways[1].trace, c.ways[1].side = &c.trace, &c.trace, 1
	c.ways[0].clock, c.ways[1].clock = c.clock, c.clock
	for i := range c.published {
		c.publish(i) // takes the memory of the copies
	}
	for i, index := range indexes {
		if c.redirects[i], err = xsk.Attach(index, order.Jumbo); err != nil {
			return err
		}
		if err := c.redirects[i].Bring(0, c.sockets[i]); err != nil {
			return err
		}
	}
	return nil
}

// run moves frames until stop is set. It keeps its thread for itself, and has the kernel wake it
// precisely.
func (c *cable) run() {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	_ = unix.Prctl(unix.PR_SET_TIMERSLACK, 1, 0, 0, 0)
	for !c.stop.Load() {
		if c.ask.Swap(false) {
			if c.forget.Swap(false) {
				for _, w := range c.ways {
					w.counters.MaxBacklog = 0
					w.depth.begin(clock.Now())
					w.model.Begin(clock.Now())
				}
			}
			c.publish(0)
			c.publish(1)
			c.answer <- struct{}{}
		}
		if busy, now := c.step(); !busy {
			c.wait(now)
		}
	}
}

// step does all pending work, and reports whether there was any and the time of the last direction.
func (c *cable) step() (busy bool, now int64) {
	for _, w := range c.ways {
		now = c.clock.Now()
		busy = w.receive(now) || busy
		busy = w.send(now) || busy
	}
	return busy, now
}

// wait sleeps until a frame arrives, a departure is near, or control requests something. Near a
// departure it returns at once: that is spinning.
func (c *cable) wait(now int64) {
	until := int64(math.MaxInt64)
	for _, w := range c.ways {
		next := w.next()
		if w.blocked {
			next = now + int64(retryWait) + c.spin
		}
		until = min(until, next)
	}
	pause := int64(idleWait)
	if until != math.MaxInt64 {
		pause = min(pause, until-now-c.spin)
	}
	if pause <= 0 {
		return
	}
	c.timeout = unix.NsecToTimespec(pause)
	if _, err := unix.Ppoll(c.poll[:], &c.timeout, nil); err == nil && c.poll[2].Revents != 0 {
		var count [8]byte
		_, _ = unix.Read(c.wake, count[:])
	}
}

// publish copies one direction's counters to where control reads them, without allocating after the
// first time.
func (c *cable) publish(i int) {
	w, to := c.ways[i], &c.published[i]
	lateness, stalls := to.Lateness, to.Stalls
	if lateness == nil {
		lateness, stalls = w.lateness.Clone(), w.behind.stalls.Clone()
	}
	lateness.Reset()
	lateness.Merge(&w.lateness)
	w.behind.close()
	stalls.Reset()
	stalls.Merge(&w.behind.stalls)
	*to = w.counters
	to.Lateness, to.Stalls, to.Held = lateness, stalls, uint64(w.inside())
}

var errNoAnswer = errors.New("the emulator's thread does not answer")

// status requests the counters of the thread. Only one goroutine may call it, and run must be
// running.
func (c *cable) status(forget bool) (link.Status, error) {
	c.forget.Store(forget)
	c.ask.Store(true)
	c.signal()
	select {
	case <-c.answer:
	case <-time.After(10 * time.Second):
		return link.Status{}, errNoAnswer
	}
	return link.Status{Cable: c.name, Forward: c.published[0], Reverse: c.published[1]}, nil
}

func (c *cable) signal() {
	one := [8]byte{1} // any non-zero count
	_, _ = unix.Write(c.wake, one[:])
}

// end stops run.
func (c *cable) end() {
	c.stop.Store(true)
	c.signal()
}

// capture begins to write a packet trace.
func (c *cable) capture(folder string, octets, cables int) error {
	if c.trace.Load() != nil {
		return fmt.Errorf("cable %s: a packet trace is written already", c.name)
	}
	trace, err := openCapture(filepath.Join(folder, c.name+".pcapng"), c.name, octets, cables)
	if err == nil {
		c.trace.Store(trace)
	}
	return err
}

// close detaches from the devices and frees everything; run must have ended.
func (c *cable) close() {
	if trace := c.trace.Swap(nil); trace != nil {
		if err := trace.close(); err != nil {
			fmt.Fprintf(os.Stderr, "cable %s: %v\n", c.name, err)
		}
	}
	for _, r := range c.redirects {
		if r != nil {
			_ = r.Close()
		}
	}
	for _, s := range c.sockets {
		if s != nil {
			_ = s.Close()
		}
	}
	if c.umem != nil {
		_ = c.umem.Close()
	}
	if c.wake >= 0 {
		_ = unix.Close(c.wake)
	}
}
