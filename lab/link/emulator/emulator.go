// SPDX-License-Identifier: Apache-2.0

// Package emulator is a link carrier that needs only veth, XDP and AF_XDP from the kernel.
//
// A child process holds AF_XDP sockets on the two ends of every cable. One thread per cable
// receives each frame, asks the model for its departure time, holds it until then and sends it from
// the other end without a copy:
//
//	host A -- veth == XDP stamps and redirects --> socket A --> model --> hold --> socket B == veth -- host B
//
// The thread sleeps in ppoll with nanosecond timeouts until shortly before a departure and spins
// the rest of the time. The child runs without garbage collection, the frame path allocates
// nothing, and the child dies with its parent.
//
// Pitfalls:
//   - Register [Part] under [PartName] with child.Main in main and TestMain: otherwise Carry starts
//     the wrong program.
//   - The hosts' ends need [link.Prepare]: otherwise partial checksums are never completed, and
//     super-packets are lost.
//   - A frame without a free buffer or ring slot, or larger than the device's MTU, is counted in
//     Overruns; none disappears silently.
//   - Lateness runs from the departure time to the return of the system call that sent the frame,
//     so it is an upper bound.
package emulator

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"weir/internal/child"
	"weir/internal/fault"
	"weir/kernel/netns"
	"weir/kernel/tc"
	"weir/lab/link"
)

// Mechanism is the emulator's name in manifests.
const Mechanism = "AF_XDP emulator"

// DefaultSpin is the time before a departure at which the thread stops sleeping, if CPUs are
// available: the wake-up latency of a thread.
const DefaultSpin = 60 * time.Microsecond

const graceToStop = 5 * time.Second

// Options of the carrier. The zero value is the recommended one.
type Options struct {
	// Spin overrides DefaultSpin; negative disables it. 0 spins if the machine has more CPUs than
	// cables.
	Spin time.Duration
}

// Carrier starts the emulator. Make one with [New].
type Carrier struct{ options Options }

// New returns a carrier.
func New(options Options) *Carrier { return &Carrier{options: options} }

// Mechanism returns "AF_XDP emulator".
func (*Carrier) Mechanism() string { return Mechanism }

// Check rejects values outside the range of the model; every valid scenario is supported.
func (*Carrier) Check(cable link.Cable) error {
	for _, d := range []link.Direction{cable.Forward, cable.Reverse} {
		if err := link.CheckDirection(d); err != nil {
			return fmt.Errorf("cable %s: %w", cable.Name, err)
		}
		if d.Queue.Discipline == link.CAKE {
			return fault.New(fault.Testbed, "use --carrier netem on a kernel that has netem and cake, such as the test kernels", "cable %s: the emulator has no cake: it is the kernel's", cable.Name)
		}
	}
	return nil
}

// Carry starts the child and returns when frames are moved. The child is killed when ctx ends.
func (c *Carrier) Carry(ctx context.Context, ns *netns.Namespace, cables []link.Cable) (link.Carrying, error) {
	for _, cable := range cables {
		if err := c.Check(cable); err != nil {
			return nil, err
		}
	}
	o, err := c.order(ns, cables)
	if err != nil {
		return nil, fmt.Errorf("start the emulator: %w", err)
	}
	r := &running{ns: ns, cables: cables}
	if err := r.start(ctx, o); err != nil {
		_ = r.Close()
		return nil, fmt.Errorf("start the emulator: %w", err)
	}
	return r, nil
}

func (c *Carrier) order(ns *netns.Namespace, cables []link.Cable) (order, error) {
	if ns.Name == "" {
		return order{}, errors.New("the carrier's namespace has no name")
	}
	o := order{Do: "start", Namespace: ns.Name, Spin: int64(c.spin(len(cables)))}
	sizes, err := plan(ns, cables)
	if err != nil {
		return order{}, err
	}
	for i, cable := range cables {
		o.Cables = append(o.Cables, cableOrder{
			Name: cable.Name, A: cable.A, B: cable.B,
			Forward: orderOf(bounded(cable.Forward)), Reverse: orderOf(bounded(cable.Reverse)),
			Buffers: sizes[i].buffers, BufferSize: sizes[i].size, Ring: sizes[i].ring, Jumbo: sizes[i].jumbo,
		})
	}
	return o, nil
}

func (c *Carrier) spin(cables int) time.Duration {
	switch {
	case c.options.Spin < 0:
		return 0
	case c.options.Spin > 0:
		return c.options.Spin
	case runtime.NumCPU() > cables:
		return DefaultSpin
	}
	return 0
}

// running is a child at work.
type running struct {
	ns       *netns.Namespace
	cables   []link.Cable
	prepared []string // devices

	mu      sync.Mutex // guards the conversation with the child
	process *child.Process
	errors  words // the child's standard error
	reports *json.Decoder
	cpu     time.Duration
	closed  bool
}

func (r *running) start(ctx context.Context, o order) error {
	if err := r.prepare(); err != nil {
		return err
	}
	process, err := child.Start(ctx, PartName, &r.errors)
	if err != nil {
		return err
	}
	r.process, r.reports = process, json.NewDecoder(process.Out)
	_, err = r.exchange(o)
	return err
}

// prepare prepares the cables' ends, several at once: the kernel waits for grace periods.
func (r *running) prepare() error {
	var ends []string
	for _, cable := range r.cables {
		ends = append(ends, cable.A, cable.B)
	}
	done := make([]bool, len(ends))
	var group errgroup.Group
	group.SetLimit(openAtOnce)
	for i, dev := range ends {
		group.Go(func() error {
			err := link.PrepareCarrierEnd(r.ns, dev)
			done[i] = err == nil
			return err
		})
	}
	err := group.Wait()
	for i, dev := range ends {
		if done[i] {
			r.prepared = append(r.prepared, dev)
		}
	}
	return err
}

// exchange sends an order and reads the report on it.
func (r *running) exchange(o order) (report, error) {
	if err := json.NewEncoder(r.process.In).Encode(o); err != nil {
		return report{}, r.died(err)
	}
	var answer report
	if err := r.reports.Decode(&answer); err != nil {
		return report{}, r.died(err)
	}
	if answer.Error != "" {
		return answer, fault.New(fault.Testbed, "see weir doctor for the requirements of AF_XDP", "%s", answer.Error)
	}
	return answer, nil
}

// died adds the child's last output to a broken connection.
func (r *running) died(err error) error {
	select {
	case <-r.process.Done():
		if said := strings.TrimSpace(r.errors.String()); said != "" {
			return fmt.Errorf("%w: the emulator's process said %s", link.ErrBroken, said)
		}
		return fmt.Errorf("%w: the emulator's process: %w", link.ErrBroken, r.process.Wait())
	case <-time.After(time.Second):
		return fmt.Errorf("talk to the emulator: %w", err)
	}
}

// words collects the output of the child for concurrent readers.
type words struct {
	mu   sync.Mutex
	text bytes.Buffer // at most maxWords
}

const maxWords = 1 << 14

func (w *words) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.text.Write(p[:min(len(p), maxWords-w.text.Len())])
	return len(p), nil
}

func (w *words) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.text.String()
}

// stop ends the child. An earlier end is an error.
func (r *running) stop() error {
	select {
	case <-r.process.Done():
		return fmt.Errorf("%w: the emulator's process: %w", link.ErrBroken, r.process.Wait())
	default:
		return r.process.Stop(graceToStop)
	}
}

func (*running) Mechanism() string { return Mechanism }

// Status requests the counters of the child.
func (r *running) Status() ([]link.Status, error) { return r.ask("status") }

// Begin has the child forget the largest backlogs.
func (r *running) Begin() error {
	_, err := r.ask("begin")
	return err
}

// Depths implements [link.Gauging].
func (r *running) Depths() ([][2][]uint32, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return nil, errors.New("read the queues' lengths: the emulator has been closed")
	}
	answer, err := r.exchange(order{Do: "depths"})
	if err != nil {
		return nil, fmt.Errorf("read the queues' lengths: %w", err)
	}
	return answer.Depths, nil
}

// Capture implements [link.Capturing].
func (r *running) Capture(folder string, octets int) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return errors.New("capture frames: the emulator has been closed")
	}
	if _, err := r.exchange(order{Do: "capture", Folder: folder, Octets: octets}); err != nil {
		return fmt.Errorf("capture frames: %w", err)
	}
	return nil
}

func (r *running) ask(what string) ([]link.Status, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return nil, errors.New("read the emulator's counters: it has been closed")
	}
	answer, err := r.exchange(order{Do: what})
	if err != nil {
		return nil, fmt.Errorf("read the emulator's counters: %w", err)
	}
	r.cpu = answer.CPU
	return answer.Status, nil
}

// CPU returns the child's CPU time at the last Status.
func (r *running) CPU() time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.cpu
}

// Close ends the child and takes its qdiscs off the devices. It may be called twice.
func (r *running) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return nil
	}
	r.closed = true
	var failures []error
	if r.process != nil {
		failures = append(failures, r.stop())
	}
	conn, err := tc.Open(r.ns)
	if err != nil {
		return errors.Join(append(failures, err)...)
	}
	defer conn.Close()
	for _, dev := range r.prepared {
		failures = append(failures, conn.Delete(dev, tc.Place{}))
	}
	return errors.Join(failures...)
}
