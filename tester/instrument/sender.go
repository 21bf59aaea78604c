// SPDX-License-Identifier: Apache-2.0

package instrument

import (
	"encoding/binary"
	"errors"
	"fmt"
	"runtime"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"weir/kernel/clock"
	"weir/kernel/xsk"
)

const (
	bufferSize = 4096
	buffers    = 512
	ringSize   = 256
	batch      = 32     // frames that leave together if they are due
	awake      = 80_000 // ns before a frame is due in which the sender does not sleep
	lateAfter  = 10_000 // ns
	maxPieces  = (MaxSize + bufferSize - 1) / bufferSize
)

// maxLag is the delay in ns from which a sender moves its schedule instead of catching up: a longer
// burst would overflow a device that can carry the rate.
const maxLag = 2_000_000

// Sent is a generator's account.
type Sent struct {
	Frames, Octets uint64 // octets include the FCS
	Late           uint64 // frames that left more than 10 µs after they were due
	Rejected       uint64 // frames that the device did not take
	Lag            time.Duration
	Running        bool
	Ended          string // "", "total frames", "stopped" or "duration"
}

// order is a sender's task. taken is closed once the task runs and no frame of the former one is on
// its way to the device.
type order struct {
	program *program // nil is silence
	until   uint64   // ns of CLOCK_MONOTONIC
	account *account
	taken   chan struct{}
}

// account is written by the sender and read by everybody.
type account struct {
	frames, octets, late, rejected, lag atomic.Uint64
	running                             atomic.Bool
	ended                               atomic.Pointer[string]
}

func (a *account) sent() Sent {
	s := Sent{Frames: a.frames.Load(), Octets: a.octets.Load(), Late: a.late.Load(), Rejected: a.rejected.Load(),
		Lag: time.Duration(a.lag.Load()), Running: a.running.Load()}
	if why := a.ended.Load(); why != nil {
		s.Ended = *why
	}
	return s
}

// sender sends from one port. Its thread owns socket and memory.
type sender struct {
	port    *port
	onEnd   func(ended string)
	order   atomic.Pointer[order]
	wake    int // eventfd
	clock   clock.Monotonic
	tai     atomic.Int64
	umem    *xsk.Umem
	socket  *xsk.Socket
	scratch []byte
	quit    atomic.Bool
	done    chan struct{}
}

// openSender opens the socket and starts the thread, which waits for an order.
func openSender(p *port, onEnd func(string)) (*sender, error) {
	s := &sender{port: p, onEnd: onEnd, done: make(chan struct{}), scratch: make([]byte, MaxSize), wake: -1}
	opened := make(chan error)
	go s.hold(opened)
	if err := <-opened; err != nil {
		return nil, err
	}
	return s, nil
}

func (s *sender) hold(opened chan<- error) {
	runtime.LockOSThread() // the thread ends with the goroutine: its timer slack is its own
	defer close(s.done)
	err := s.open()
	opened <- err
	if err != nil {
		_ = s.release()
		return
	}
	s.loop()
	_ = s.release()
}

func (s *sender) open() (err error) {
	if s.wake, err = unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK); err != nil {
		return fmt.Errorf("open eventfd: %w", err)
	}
	if err := unix.Prctl(unix.PR_SET_TIMERSLACK, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("set timer slack: %w", err)
	}
	if s.clock, err = clock.New(); err != nil {
		return err
	}
	if s.umem, err = xsk.NewUmem(buffers, bufferSize); err != nil {
		return err
	}
	return s.port.config.Namespace.Do(func() (err error) {
		s.socket, err = xsk.Open(s.umem, s.port.index, 0, xsk.Options{Transmit: ringSize, MultiBuffer: s.port.mtu+18 > bufferSize})
		return err
	})
}

func (s *sender) release() error {
	var all []error
	if s.socket != nil {
		all = append(all, s.socket.Close())
	}
	if s.umem != nil {
		all = append(all, s.umem.Close())
	}
	if s.wake >= 0 {
		all = append(all, unix.Close(s.wake))
	}
	return errors.Join(all...)
}

// give hands a new order to the sender and does not wait for it.
func (s *sender) give(o *order) {
	s.order.Store(o)
	var one [8]byte
	binary.NativeEndian.PutUint64(one[:], 1)
	_, _ = unix.Write(s.wake, one[:]) // full means that a wake-up waits already
}

func (s *sender) close() {
	s.quit.Store(true)
	s.give(&order{taken: make(chan struct{})})
	<-s.done
}

func (s *sender) now() uint64 { return uint64(s.clock.Now()) }

// loop carries out orders until quit.
func (s *sender) loop() {
	var current *order
	for !s.quit.Load() {
		next := s.order.Load()
		if next == current {
			s.sleep(never)
			continue
		}
		current = next
		if current.program == nil {
			close(current.taken)
			continue
		}
		current.account.running.Store(true)
		close(current.taken)
		ended := s.send(current)
		s.drain()
		current.account.running.Store(false)
		current.account.ended.Store(&ended)
		if ended != stopped {
			s.onEnd(ended)
		}
	}
}

const stopped = "stopped"

// send sends a program until it ends or another order comes.
func (s *sender) send(o *order) (ended string) {
	p := o.program
	for s.order.Load() == o {
		now := s.now()
		switch {
		case p.done:
			return "total frames"
		case now >= o.until:
			return "duration"
		}
		due := p.due()
		if due > now {
			s.wait(min(due, o.until))
			continue
		}
		s.burst(o, now)
	}
	return stopped
}

// burst queues the frames that are due, and sends them together.
func (s *sender) burst(o *order, now uint64) {
	p := o.program
	var frames, octets, late uint64
	for frames < batch && !p.done && s.room() {
		due := p.due()
		if due > now {
			if now = s.now(); due > now {
				break
			}
		}
		if lag := now - due; lag > lateAfter {
			late++
			if lag > maxLag {
				p.start += lag
				o.account.lag.Add(lag)
			}
		}
		octets += uint64(p.size() + fcs)
		s.queue(p, now)
		frames++
	}
	s.flush(o)
	o.account.frames.Add(frames)
	o.account.octets.Add(octets)
	o.account.late.Add(late)
}

func (s *sender) room() bool {
	if s.socket.Free() >= maxPieces && s.umem.Available() >= maxPieces {
		return true
	}
	s.socket.Reap()
	if s.socket.Free() >= maxPieces && s.umem.Available() >= maxPieces {
		return true
	}
	_ = s.socket.Kick() // flush accounts for its errors
	s.socket.Reap()
	return false
}

// queue makes the program's next frame and puts it into the ring.
func (s *sender) queue(p *program, now uint64) {
	size, tai := p.size(), uint64(int64(now)+s.tai.Load())
	if size <= bufferSize {
		addr, _ := s.umem.Take() // the caller has checked
		d := xsk.Desc{Addr: addr, Len: uint32(size)}
		p.fill(s.umem.Bytes(d), tai)
		s.socket.Transmit(d)
		return
	}
	octets := s.scratch[:size]
	p.fill(octets, tai)
	for len(octets) > 0 {
		addr, _ := s.umem.Take()
		d := xsk.Desc{Addr: addr, Len: uint32(min(len(octets), bufferSize))}
		octets = octets[copy(s.umem.Bytes(d), octets):]
		if len(octets) > 0 {
			d.Flags = xsk.Continues
		}
		s.socket.Transmit(d)
	}
}

// flush has the kernel take everything from the ring, unless another order comes.
func (s *sender) flush(o *order) {
	for first := true; first || s.socket.Unsent() > 0 && s.order.Load() == o; first = false {
		err := s.socket.Kick()
		s.socket.Reap()
		switch {
		case errors.Is(err, xsk.ErrDropped):
			o.account.rejected.Add(1)
		case errors.Is(err, xsk.ErrDown), errors.Is(err, xsk.ErrInvalid):
			s.sleep(s.now() + 1_000_000) // a port that is down: its frames wait, and its schedule moves
		}
	}
}

// drain leaves no frame in the ring: an old frame must not follow a new order.
func (s *sender) drain() {
	for until := s.now() + 10_000_000; s.socket.Unsent() > 0 && s.now() < until; {
		_ = s.socket.Kick() // a device that is down keeps its frames until it is up
		s.socket.Reap()
	}
}

// wait waits for a time or an order: asleep as long as there is time, then awake.
func (s *sender) wait(until uint64) {
	now := s.now()
	if until > now+awake {
		s.sleep(until - awake)
		return
	}
	for o := s.order.Load(); now < until && s.order.Load() == o; {
		now = s.now()
	}
}

// sleep sleeps until a time or an order.
func (s *sender) sleep(until uint64) {
	fds := []unix.PollFd{{Fd: int32(s.wake), Events: unix.POLLIN}}
	var limit *unix.Timespec
	if until != never {
		now := s.now()
		if until <= now {
			return
		}
		left := unix.NsecToTimespec(int64(min(until-now, uint64(time.Hour))))
		limit = &left
	}
	if n, err := unix.Ppoll(fds, limit, nil); err == nil && n > 0 {
		var count [8]byte
		_, _ = unix.Read(s.wake, count[:]) // empty is as good
	}
}
