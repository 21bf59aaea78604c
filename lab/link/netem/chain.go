// SPDX-License-Identifier: Apache-2.0

package netem

import (
	"errors"
	"time"

	"weir/internal/units"
	"weir/kernel/tc"
	"weir/lab/link"
	"weir/lab/link/inkernel"
)

const (
	noLimit   = 1 << 20 // packets of a netem without a queue limit: those in flight
	atOnce    = 100e9   // bit/s: a rate without noticeable delay that makes netem keep the order
	burstTime = 100 * time.Microsecond
	headers   = 14 + 2*4 // Ethernet and two VLAN tags
	tbfLimit  = 1 << 30  // bytes, without a requested limit
)

// chain is one direction of a cable.
type chain struct {
	inkernel.Path
	place  *inkernel.Place
	spare  string // first device of the spare pair; its peer's name has the suffix p
	wires  []*wire
	paced  bool // the spare pair exists
	queue  int  // index of the spare pair's first device
	shaped bool // To has a netem
	before struct{ spare, to link.Drops }
}

func (c *chain) peer() string { return c.spare + "p" }

// Build starts at the far end, so that no frame finds half a chain.
func (c *chain) Build() error {
	if err := c.place.Qdiscs.AddNetem(c.To, tc.Place{}, c.second()); err != nil {
		return err
	}
	c.shaped = true
	hops := []string{c.From, c.To}
	if c.Direction.Rate > 0 {
		if err := c.pace(); err != nil {
			return err
		}
		hops = []string{c.peer(), c.To, c.From, c.spare}
	}
	for i := 0; i < len(hops); i += 2 {
		if err := c.connect(hops[i], hops[i+1]); err != nil {
			return err
		}
	}
	return c.remember()
}

func (c *chain) connect(from, to string) error {
	sink, err := c.place.Devices.Device(to)
	if err != nil {
		return err
	}
	w, err := newWire(c.place.Namespace, from, sink.Index, c.place.Hook)
	if err == nil {
		c.wires = append(c.wires, w)
	}
	return err
}

// pace adds the spare pair with the bottleneck on it.
func (c *chain) pace() error {
	conn := c.place.Devices
	end, err := conn.Device(c.From)
	if err != nil {
		return err
	}
	if err := conn.AddVeth(c.spare, nil, c.peer(), end.MTU); err != nil {
		return err
	}
	c.paced = true
	spare, err := conn.Device(c.spare)
	if err != nil {
		return err
	}
	c.queue = spare.Index
	for _, dev := range []string{c.spare, c.peer()} {
		if err := link.Silence(c.place.Namespace, dev); err != nil {
			return err
		}
		if err := conn.SetUp(dev); err != nil {
			return err
		}
	}
	queue, rate := c.Direction.Queue, c.Direction.Rate
	if queue.Discipline == link.CAKE {
		return c.place.Qdiscs.AddCake(c.spare, tc.Place{}, tc.CakeSpec{
			Rate: rate, Overhead: link.FrameOverhead, Target: queue.Target, Interval: queue.Interval, Limit: queue.Bytes,
		})
	}
	if queue.Managed() {
		return c.manage(end.MTU)
	}
	if queue.Bytes == 0 {
		return c.place.Qdiscs.AddNetem(c.spare, tc.Place{}, tc.NetemSpec{
			// One more than may wait: netem counts the frame on the wire.
			Limit: uint32(limit(queue.Packets)), Rate: rate, Overhead: link.FrameOverhead, Seed: c.Direction.Seed,
		})
	}
	return c.bucket(tc.Place{}, end.MTU, min(queue.Bytes, tbfLimit))
}

// bucket adds the token bucket that keeps the rate if netem's own rate cannot.
func (c *chain) bucket(at tc.Place, mtu int, limit units.ByteSize) error {
	rate := c.Direction.Rate
	burst := max(float64(mtu+headers+link.FrameOverhead), float64(rate)/8*burstTime.Seconds())
	return c.place.Qdiscs.AddTBF(c.spare, at, tc.TBFSpec{Rate: rate, Burst: units.ByteSize(burst), Limit: limit, Overhead: link.FrameOverhead})
}

// manage adds the token bucket with the kernel's own discipline as its queue.
func (c *chain) manage(mtu int) error {
	top := tc.Place{Handle: tc.MakeHandle(1, 0)}
	if err := c.bucket(top, mtu, tbfLimit); err != nil {
		return err
	}
	q, leaf := c.Direction.Queue.WithDefaults(), tc.Place{Parent: tc.MakeHandle(1, 1), Handle: leafHandle}
	spec := tc.ManagedSpec{Limit: uint32(q.Packets), Target: q.Target, Interval: q.Interval, ECN: q.Mark}
	switch q.Discipline {
	case link.CoDel:
		return c.place.Qdiscs.AddCoDel(c.spare, leaf, spec)
	case link.FQCoDel:
		return c.place.Qdiscs.AddFqCodel(c.spare, leaf, tc.FqCodelSpec{Limit: spec.Limit, Target: q.Target, Interval: q.Interval, ECN: q.Mark})
	}
	return c.place.Qdiscs.AddPIE(c.spare, leaf, spec)
}

const leafHandle = tc.Handle(2 << 16)

func limit(packets int) int {
	if packets == 0 {
		return noLimit
	}
	return min(packets, noLimit-1) + 1
}

// second returns the impairments after the bottleneck.
func (c *chain) second() tc.NetemSpec {
	d := c.Direction
	spec := tc.NetemSpec{
		Limit: noLimit, Delay: d.Delay, Jitter: d.Jitter, Duplicate: d.Duplicate, Corrupt: d.Corrupt, Seed: d.Seed,
		Distribution: map[link.JitterShape]tc.Distribution{link.Normal: tc.Normal, link.Pareto: tc.Pareto}[d.Shape],
	}
	if d.Delay > 0 { // without delay no frame can overtake
		spec.Reorder = d.Reorder
	}
	if d.KeepOrder && d.Jitter > 0 {
		spec.Rate = atOnce
	}
	spec.Loss, _ = d.Loss.Netem() // Check has rejected unsupported loss
	return spec
}

// remember reads the devices' drop counters as a baseline.
func (c *chain) remember() (err error) {
	if c.paced {
		if c.before.spare, err = link.ReadDrops(c.place.Namespace, c.spare); err != nil {
			return err
		}
	}
	c.before.to, err = link.ReadDrops(c.place.Namespace, c.To)
	return err
}

func (c *chain) Counters() (link.Counters, error) {
	var n link.Counters
	received, err := c.wires[len(c.wires)-1].received() // the program of the near end was attached last
	if err != nil {
		return n, err
	}
	n.Received = received
	if c.paced {
		bottleneck, err := c.bottleneck()
		if err != nil {
			return n, err
		}
		n.QueueDrops, n.Held, n.Marked = bottleneck.Drops, bottleneck.Queued, bottleneck.Marked
		lost, err := link.ReadDrops(c.place.Namespace, c.spare)
		if err != nil {
			return n, err
		}
		n.Overruns = lost.Transmit - c.before.spare.Transmit
	}
	shaper, err := c.root(c.To)
	if err != nil {
		return n, err
	}
	n.Held += shaper.Queued
	n.Sent, n.SentBytes, n.LossDrops = shaper.Packets, shaper.Bytes, shaper.Drops
	lost, err := link.ReadDrops(c.place.Namespace, c.To)
	if err != nil {
		return n, err
	}
	n.Overruns += lost.Transmit - c.before.to.Transmit
	if out, in := n.Sent+n.LossDrops+n.Held+n.QueueDrops, n.Received; c.Direction.Duplicate > 0 && out > in {
		n.Duplicated = out - in
	}
	return n, nil
}

// bottleneck returns the outermost qdisc of the spare pair, with its leaf's drops and marks.
func (c *chain) bottleneck() (top tc.Qdisc, err error) {
	all, err := c.place.Qdiscs.List(c.spare)
	if err != nil {
		return top, err
	}
	var marked uint64
	for _, q := range all {
		if q.Parent == tc.Root {
			top = q
		}
		marked += q.Marked
	}
	if top.Parent != tc.Root {
		return top, errNoQdisc
	}
	top.Marked = marked
	return top, nil
}

// root returns the outermost qdisc of a device.
func (c *chain) root(dev string) (tc.Qdisc, error) {
	all, err := c.place.Qdiscs.List(dev)
	if err != nil {
		return tc.Qdisc{}, err
	}
	for _, q := range all {
		if q.Parent == tc.Root {
			return q, nil
		}
	}
	return tc.Qdisc{}, errNoQdisc
}

// Remove undoes Build, including a partial one.
func (c *chain) Remove() error {
	for _, w := range c.wires {
		w.close()
	}
	var failures []error
	if c.shaped {
		failures = append(failures, c.place.Qdiscs.Delete(c.To, tc.Place{}))
	}
	if c.paced {
		failures = append(failures, c.place.Devices.Delete(c.spare))
	}
	return errors.Join(failures...)
}

var errNoQdisc = errors.New("the link's queueing discipline is gone")
