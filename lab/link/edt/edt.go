// SPDX-License-Identifier: Apache-2.0

// Package edt is a link carrier inside the kernel: earliest departure times.
//
// Every direction of a cable is a program at the near end's ingress that knows, when a frame
// arrives, what becomes of it and when it leaves, and the kernel's fq at the far end's egress,
// which keeps it until then (edt.bpf.c draws it). No process takes part once it stands, and there
// is one queue of the kernel's a direction.
//
// What bites:
//   - fq orders frames by their departure times alone: it is told to take all for one flow.
//   - It keeps at most its limit of packets; a million here.
//   - Schedules and queue disciplines are not there: Check says so.
//   - A device of the carrier has no ring of its own: what a processor's backlog
//     (net.core.netdev_max_backlog) does not hold is lost before the link, and the gate's balance
//     shows it.
//   - The choices of a seed are not the emulator's: another generator makes them.
package edt

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"weir/internal/fault"
	"weir/internal/kernel/device"
	"weir/internal/kernel/netns"
	"weir/internal/kernel/rtnl"
	"weir/internal/kernel/tc"
	"weir/lab/link"
)

// Mechanism is the carrier's name in manifests.
const Mechanism = "departure times in fq"

// Carrier sets up programs and fq. The zero value is ready to use.
type Carrier struct {
	hook device.Mechanism // how programs are attached
}

// New returns a carrier.
func New() *Carrier { return &Carrier{} }

// Mechanism returns "departure times in fq".
func (*Carrier) Mechanism() string { return Mechanism }

// Check refuses what a departure time on arrival cannot say.
func (*Carrier) Check(cable link.Cable) error {
	for _, d := range []link.Direction{cable.Forward, cable.Reverse} {
		if err := link.CheckDirection(d); err != nil {
			return fmt.Errorf("cable %s: %w", cable.Name, err)
		}
		if what := beyond(d); what != "" {
			return fault.New(fault.Testbed, "use --carrier emulator for this scenario", "cable %s: %s cannot %s", cable.Name, Mechanism, what)
		}
	}
	return nil
}

func beyond(d link.Direction) string {
	switch {
	case len(d.Schedule) > 0:
		return "follow a schedule"
	case d.Queue.Managed():
		return "manage a queue by " + string(d.Queue.Discipline)
	case d.Rate > 0 && d.Rate < 8:
		return "limit to less than an octet per second"
	case d.Delay > longest || d.Jitter > longest/deviations:
		return fmt.Sprintf("delay by more than %s", longest)
	}
	return ""
}

// Carry attaches the programs. It needs no process: ctx matters only until it returns.
func (c *Carrier) Carry(ctx context.Context, ns *netns.Namespace, cables []link.Cable) (link.Carrying, error) {
	r := &running{ns: ns, hook: c.hook}
	if err := r.open(); err != nil {
		return nil, fmt.Errorf("start %s: %w", Mechanism, err)
	}
	for _, cable := range cables {
		err := c.Check(cable)
		if err == nil {
			err = ctx.Err()
		}
		if err == nil {
			err = r.add(cable)
		}
		if err != nil {
			_ = r.Close()
			return nil, fmt.Errorf("start %s: %w", Mechanism, err)
		}
	}
	return r, nil
}

// running are the directions at work.
type running struct {
	ns     *netns.Namespace
	hook   device.Mechanism
	mu     sync.Mutex // guards the rest
	conn   *rtnl.Conn
	qdiscs *tc.Conn
	names  []string
	ways   [][2]*way // by cable: forward, reverse
	closed bool
}

func (r *running) open() (err error) {
	if r.conn, err = rtnl.Open(r.ns); err != nil {
		return err
	}
	if r.qdiscs, err = tc.Open(r.ns); err != nil {
		r.conn.Close()
	}
	return err
}

func (r *running) add(cable link.Cable) error {
	for _, dev := range []string{cable.A, cable.B} {
		if err := link.HandOver(r.ns, dev); err != nil {
			return err
		}
		if err := link.Silence(r.ns, dev); err != nil {
			return err
		}
	}
	r.names = append(r.names, cable.Name)
	r.ways = append(r.ways, [2]*way{})
	last := &r.ways[len(r.ways)-1]
	for i, w := range []*way{
		{running: r, from: cable.A, to: cable.B, direction: cable.Forward},
		{running: r, from: cable.B, to: cable.A, direction: cable.Reverse},
	} {
		last[i] = w
		if err := w.build(); err != nil {
			return fmt.Errorf("cable %s: %w", cable.Name, err)
		}
	}
	return nil
}

func (*running) Mechanism() string { return Mechanism }

// CPU is zero: the kernel does the work, in the time of whoever sends.
func (*running) CPU() time.Duration { return 0 }

// each calls f for all directions, forward and reverse by turns.
func (r *running) each(f func(*way) error) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return errors.New("it has been closed")
	}
	for _, ways := range r.ways {
		for _, w := range ways {
			if err := f(w); err != nil {
				return err
			}
		}
	}
	return nil
}

// Begin implements [link.Carrying].
func (r *running) Begin() error {
	if err := r.each((*way).begin); err != nil {
		return fmt.Errorf("begin a span: %w", err)
	}
	return nil
}

// Status implements [link.Carrying].
func (r *running) Status() (all []link.Status, err error) {
	var counters []link.Counters
	err = r.each(func(w *way) error {
		c, err := w.counters()
		counters = append(counters, c)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read the links' counters: %w", err)
	}
	for i, name := range r.names {
		all = append(all, link.Status{Cable: name, Forward: counters[2*i], Reverse: counters[2*i+1]})
	}
	return all, nil
}

// Depths implements [link.Gauging].
func (r *running) Depths() (all [][2][]uint32, err error) {
	var depths [][]uint32
	err = r.each(func(w *way) error {
		d, err := w.depths()
		depths = append(depths, d)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read the queues' lengths: %w", err)
	}
	for i := range r.names {
		all = append(all, [2][]uint32{depths[2*i], depths[2*i+1]})
	}
	return all, nil
}

// Close takes programs and queueing disciplines away. It may be called twice.
func (r *running) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return nil
	}
	r.closed = true
	var failures []error
	for _, ways := range r.ways {
		for _, w := range ways {
			if w != nil {
				failures = append(failures, w.remove())
			}
		}
	}
	r.conn.Close()
	r.qdiscs.Close()
	return errors.Join(failures...)
}
