// SPDX-License-Identifier: Apache-2.0

package generator

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"weir/internal/fault"
	"weir/kernel/rtnl"
	"weir/tester"
	"weir/tester/frame"
	"weir/tester/packet"
)

// live is a schedule being sent by the BPF program. One thread is in the system call that runs it;
// another goroutine interrupts that thread with a signal when the program has ended or must stop.
type live struct {
	plan    []frame.Planned
	port    Port
	objects generatorObjects
	data    []byte // the frame that the kernel copies
	ifindex int
	batch   int
	slots   uint32
	pass    link.Link // at the peer; nil if not needed
	before  deviceCounts

	part   bool            // of a group, which counts rejected frames
	others *sync.WaitGroup // of a group: all parts
	after  link.Link       // of a group's last part: closed after all of them

	thread  atomic.Int32 // 0 outside the system call
	stop    atomic.Bool
	mu      sync.Mutex // guards objects from Close while Progress reads them
	closed  bool
	done    chan struct{}
	account tester.Generation // final account, once done is closed
	err     error
}

func startLive(ctx context.Context, port Port, schedule tester.Schedule, plan []frame.Planned) (*live, error) {
	l := newLive(port, schedule, plan)
	if err := l.open(schedule); err != nil {
		return nil, errors.Join(err, l.close())
	}
	go l.run()
	go l.watch(ctx)
	return l, nil
}

func newLive(port Port, schedule tester.Schedule, plan []frame.Planned) *live {
	return &live{plan: plan, port: port, done: make(chan struct{}), batch: batchOf(schedule, plan), slots: slotsOf(schedule.Duration)}
}

// maxTogether is the maximum number of frames sent together.
const maxTogether = 64

// batchOf chooses the number of frames sent together: 1 keeps the times of paced streams, 64 is
// fastest.
func batchOf(schedule tester.Schedule, plan []frame.Planned) int {
	if schedule.Batch != 0 {
		return schedule.Batch
	}
	rate, full := frame.Rate(plan)
	switch {
	case full:
		return maxTogether
	case coalesces(schedule):
		return int(min(max(rate*schedule.Coalesce.Seconds(), 1), maxTogether))
	case rate > 1e6:
		return maxTogether
	}
	return 1
}

// coalesces reports whether paced frames may wait for later ones.
func coalesces(schedule tester.Schedule) bool { return schedule.Batch == 0 && schedule.Coalesce > 0 }

// slotsOf returns more frame slots than fit into the duration, so that one system call lasts for
// all of it, and few enough that the call ends by itself soon after: an empty slot takes some 30
// ns, a frame takes 150.
func slotsOf(duration time.Duration) uint32 {
	return uint32(min(max(uint64(duration)/20, 1000), 1<<32-1000))
}

func (l *live) open(schedule tester.Schedule) error {
	conn, err := rtnl.Open(l.port.Namespace)
	if err != nil {
		return err
	}
	defer conn.Close()
	device, err := conn.Device(l.port.Device)
	if err != nil {
		return fault.Wrap(err, fault.Usage, "name a device of that namespace: ip link")
	}
	l.ifindex = device.Index
	if err := l.load(schedule); err != nil {
		return err
	}
	l.before = readDevice(l.port)
	return l.attachPass()
}

// attachPass attaches a pass-all program to the peer, unless it has an XDP program.
func (l *live) attachPass() error {
	if l.port.Peer == nil {
		return nil
	}
	conn, err := rtnl.Open(l.port.Peer.Namespace)
	if err != nil {
		return err
	}
	defer conn.Close()
	device, err := conn.Device(l.port.Peer.Device)
	if err != nil {
		return fault.Wrap(err, fault.Usage, "name the other end of the veth pair")
	}
	err = l.port.Peer.Namespace.Do(func() (err error) {
		l.pass, err = link.AttachXDP(link.XDPOptions{Program: l.objects.PassFrames, Interface: device.Index, Flags: link.XDPDriverMode})
		return err
	})
	if err != nil && !errors.Is(err, unix.EBUSY) && !errors.Is(err, unix.EEXIST) {
		return fmt.Errorf("attach pass program to %s: %w", l.port.Peer.Device, err)
	}
	return nil
}

// run occupies its thread with the program until the program ends.
func (l *live) run() {
	runtime.LockOSThread() // permanently if the CPUs were set: the thread then ends with the goroutine
	if len(l.port.CPUs) == 0 {
		defer runtime.UnlockOSThread()
	}
	err := l.port.Namespace.Do(l.send)
	l.finish(err)
}

func (l *live) send() error {
	if err := packet.Pin(l.port.CPUs); err != nil {
		return err
	}
	l.thread.Store(int32(unix.Gettid()))
	defer l.thread.Store(0)
	for !l.stop.Load() {
		if l.ended() {
			return nil
		}
		err := runLive(l.objects.Generate.FD(), l.data, l.ifindex, l.slots, l.batch)
		if err != nil && !errors.Is(err, unix.EINTR) {
			return fmt.Errorf("run generator on %s: %w", l.port.Device, err)
		}
	}
	return nil
}

// look is the polling interval of the goroutine that watches for the end of the program.
const look = time.Millisecond

func (l *live) watch(ctx context.Context) {
	ticker := time.NewTicker(look)
	defer ticker.Stop()
	for {
		select {
		case <-l.done:
			return
		case <-ctx.Done():
			l.stop.Store(true)
		case <-ticker.C:
		}
		if thread := int(l.thread.Load()); thread != 0 && (l.stop.Load() || l.ended()) {
			// the runtime itself interrupts threads with SIGURG: it only ends the system call
			_ = unix.Tgkill(os.Getpid(), thread, unix.SIGURG)
		}
		if ctx.Err() != nil {
			ctx = context.Background()
		}
	}
}

// ended reports whether the run is complete.
func (l *live) ended() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return true
	}
	a, err := l.read()
	return err != nil || a.Ended != generatorEndedENDED_NOT
}

// finish reads the final account and releases all resources.
func (l *live) finish(err error) {
	account, reading := l.generation(true)
	err = errors.Join(err, reading)
	if err == nil && account.Ended == "" {
		account.Ended = "stopped"
	}
	if err != nil {
		account.Ended = err.Error()
	}
	if sent := frames(account); err == nil && !l.part && sent > 0 && account.Refused >= sent {
		err = allRefused(l.port, sent)
	}
	if l.others != nil {
		l.others.Done()
	}
	if l.after != nil {
		l.others.Wait()
		err = errors.Join(err, l.after.Close())
	}
	l.account = account
	l.err = errors.Join(err, l.close())
	close(l.done)
}

// Stop ends the run.
func (l *live) Stop() { l.stop.Store(true) }

// Wait waits for the end.
func (l *live) Wait() (tester.Generation, error) {
	<-l.done
	return l.account, l.err
}

func (l *live) close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil
	}
	l.closed = true
	var all []error
	if l.pass != nil {
		all = append(all, l.pass.Close())
	}
	if err := errors.Join(append(all, l.objects.Close())...); err != nil {
		return fmt.Errorf("close generator: %w", err)
	}
	return nil
}
