// SPDX-License-Identifier: Apache-2.0

// Package netem is a link carrier made of the kernel's own queueing disciplines.
//
// Every direction of a cable is a chain inside the carrier's namespace; a small BPF program at a
// device's ingress moves its frames to the next device's egress, without a bridge and so without
// addresses being learned or frames eaten:
//
//	end A ingress -> [ spare veth egress: rate and queue ] -> [ its peer's ingress ] -> end B egress: netem
//
// The first stage is there only if the direction has a rate: netem's rate where the queue is
// counted in packets, TBF where it is counted in octets, CAKE where that is asked for. The second
// is netem with loss, damage, duplication, delay and jitter, so that a lost frame has used the
// bottleneck. Two stages, because one netem counts the frames on their way into its limit, and
// because one with a rate and jitter never lets frames overtake each other.
//
// What bites:
//   - Waiting flows are classes of cake, which come and go.
//   - netem cannot lose every n-th frame, mark by octets that wait, or limit a queue in octets and
//     packets at once: Check says so.
//   - netem may damage the Ethernet header too; the emulator never does.
//   - TBF lets a burst of 100 µs, or one frame, pass at once; netem's rate does not.
//   - Frames that netem marked, reordered or damaged are not counted by the kernel: these counters
//     stay 0, and Lateness nil.
//   - Seeds are honoured from Linux 6.6 on, and repeat choices only for the same sequence of
//     frames.
package netem

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
const Mechanism = "netem"

// Carrier sets up netem. The zero value is ready to use.
type Carrier struct {
	hook device.Mechanism // what brings frames to the next device
}

// New returns a carrier.
func New() *Carrier { return &Carrier{} }

// Mechanism returns "netem".
func (*Carrier) Mechanism() string { return Mechanism }

// Check refuses what netem cannot do.
func (*Carrier) Check(cable link.Cable) error {
	for _, d := range []link.Direction{cable.Forward, cable.Reverse} {
		if err := link.CheckDirection(d); err != nil {
			return fmt.Errorf("cable %s: %w", cable.Name, err)
		}
		if what := beyond(d); what != "" {
			return fault.New(fault.Testbed, "use --carrier emulator for this scenario", "cable %s: netem cannot %s", cable.Name, what)
		}
	}
	return nil
}

func beyond(d link.Direction) string {
	_, cannot := d.Loss.Netem()
	switch {
	case cannot != "":
		return cannot
	case len(d.Schedule) > 0:
		return "follow a schedule"
	case d.Queue.Managed() && d.Queue.Discipline != link.CAKE:
		return "be told to manage a queue by " + string(d.Queue.Discipline)
	case d.Queue.ECN > 0:
		return "mark by the octets that wait"
	case d.Queue.Bytes > 0 && d.Queue.Packets > 0:
		return "limit a queue in octets and in packets at once"
	case d.Rate > 0 && d.Rate < 8:
		return "limit to less than an octet per second"
	}
	return ""
}

// Carry builds the chains. It needs no process: ctx matters only until it returns.
func (c *Carrier) Carry(ctx context.Context, ns *netns.Namespace, cables []link.Cable) (link.Carrying, error) {
	r := &running{ns: ns, hook: c.hook}
	if err := r.open(); err != nil {
		return nil, fmt.Errorf("start netem: %w", err)
	}
	for i, cable := range cables {
		err := c.Check(cable)
		if err == nil {
			err = ctx.Err()
		}
		if err == nil {
			err = r.add(i, cable)
		}
		if err != nil {
			_ = r.Close()
			return nil, fmt.Errorf("start netem: %w", err)
		}
	}
	return r, nil
}

// running are the chains at work.
type running struct {
	ns     *netns.Namespace
	hook   device.Mechanism
	mu     sync.Mutex // guards the rest
	conn   *rtnl.Conn
	qdiscs *tc.Conn
	names  []string
	chains [][2]*chain // by cable: forward, reverse
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

func (r *running) add(number int, cable link.Cable) error {
	for _, dev := range []string{cable.A, cable.B} {
		if err := link.Silence(r.ns, dev); err != nil {
			return err
		}
	}
	r.names = append(r.names, cable.Name)
	r.chains = append(r.chains, [2]*chain{})
	last := &r.chains[len(r.chains)-1]
	for i, way := range []struct {
		from, to  string
		direction link.Direction
	}{{cable.A, cable.B, cable.Forward}, {cable.B, cable.A, cable.Reverse}} {
		c := &chain{running: r, from: way.from, to: way.to, direction: way.direction, spare: fmt.Sprintf("weir-q%d-%d", number, i)}
		last[i] = c
		if err := c.build(); err != nil {
			return fmt.Errorf("cable %s: %w", cable.Name, err)
		}
	}
	return nil
}

func (*running) Mechanism() string { return Mechanism }

// Begin does nothing: netem does not tell the largest backlog.
func (*running) Begin() error { return nil }

// CPU is zero: the kernel does the work, in the time of whoever sends.
func (*running) CPU() time.Duration { return 0 }

// Status reads the counters of programs and queueing disciplines.
func (r *running) Status() ([]link.Status, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return nil, errors.New("read netem's counters: it has been closed")
	}
	all := make([]link.Status, len(r.chains))
	for i, chains := range r.chains {
		all[i].Cable = r.names[i]
		for k, into := range []*link.Counters{&all[i].Forward, &all[i].Reverse} {
			counters, err := chains[k].counters()
			if err != nil {
				return nil, fmt.Errorf("read netem's counters: %w", err)
			}
			*into = counters
		}
	}
	return all, nil
}

// Close takes programs, queueing disciplines and spare devices away. It may be called twice.
func (r *running) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return nil
	}
	r.closed = true
	var failures []error
	for _, chains := range r.chains {
		for _, c := range chains {
			if c != nil {
				failures = append(failures, c.remove())
			}
		}
	}
	r.conn.Close()
	r.qdiscs.Close()
	return errors.Join(failures...)
}
