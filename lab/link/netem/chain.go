// SPDX-License-Identifier: Apache-2.0

package netem

import (
	"errors"
	"time"

	"weir/internal/kernel/tc"
	"weir/internal/units"
	"weir/lab/link"
)

const (
	noLimit   = 1 << 20 // packets of a netem that is not to drop: those on their way
	atOnce    = 100e9   // bit/s: a rate that delays nothing, and makes netem keep the order
	burstTime = 100 * time.Microsecond
	headers   = 14 + 2*4 // Ethernet and two VLAN tags
	tbfLimit  = 1 << 30  // octets, where no limit is asked
)

// chain is one direction of a cable.
type chain struct {
	running   *running
	from, to  string // the cable's ends
	spare     string // first device of the spare pair; its peer has a p behind its name
	direction link.Direction
	wires     []*wire
	paced     bool // the spare pair exists
	shaped    bool // to has a netem
	before    struct{ spare, to link.Drops }
}

func (c *chain) peer() string { return c.spare + "p" }

// build works from the far end to the near one, so that no frame finds half a chain.
func (c *chain) build() error {
	if err := c.running.qdiscs.AddNetem(c.to, tc.Place{}, c.second()); err != nil {
		return err
	}
	c.shaped = true
	hops := []string{c.from, c.to}
	if c.direction.Rate > 0 {
		if err := c.pace(); err != nil {
			return err
		}
		hops = []string{c.peer(), c.to, c.from, c.spare}
	}
	for i := 0; i < len(hops); i += 2 {
		if err := c.connect(hops[i], hops[i+1]); err != nil {
			return err
		}
	}
	return c.remember()
}

func (c *chain) connect(from, to string) error {
	sink, err := c.running.conn.Device(to)
	if err != nil {
		return err
	}
	w, err := newWire(c.running.ns, from, sink.Index, c.running.hook)
	if err == nil {
		c.wires = append(c.wires, w)
	}
	return err
}

// pace makes the spare pair with the bottleneck on it.
func (c *chain) pace() error {
	conn := c.running.conn
	end, err := conn.Device(c.from)
	if err != nil {
		return err
	}
	if err := conn.AddVeth(c.spare, nil, c.peer(), end.MTU); err != nil {
		return err
	}
	c.paced = true
	for _, dev := range []string{c.spare, c.peer()} {
		if err := link.Silence(c.running.ns, dev); err != nil {
			return err
		}
		if err := conn.SetUp(dev); err != nil {
			return err
		}
	}
	queue, rate := c.direction.Queue, c.direction.Rate
	if queue.Discipline == link.CAKE {
		return c.running.qdiscs.AddCake(c.spare, tc.Place{}, tc.CakeSpec{
			Rate: rate, Overhead: link.FrameOverhead, Target: queue.Target, Interval: queue.Interval, Limit: queue.Bytes,
		})
	}
	if queue.Bytes == 0 {
		return c.running.qdiscs.AddNetem(c.spare, tc.Place{}, tc.NetemSpec{
			// One more than may wait: netem counts the frame on the wire.
			Limit: uint32(limit(queue.Packets)), Rate: rate, Overhead: link.FrameOverhead, Seed: c.direction.Seed,
		})
	}
	burst := max(float64(end.MTU+headers+link.FrameOverhead), float64(rate)/8*burstTime.Seconds())
	return c.running.qdiscs.AddTBF(c.spare, tc.Place{}, tc.TBFSpec{
		Rate: rate, Burst: units.ByteSize(burst), Limit: min(queue.Bytes, tbfLimit), Overhead: link.FrameOverhead,
	})
}

func limit(packets int) int {
	if packets == 0 {
		return noLimit
	}
	return min(packets, noLimit-1) + 1
}

// second is what happens behind the bottleneck.
func (c *chain) second() tc.NetemSpec {
	d := c.direction
	spec := tc.NetemSpec{
		Limit: noLimit, Delay: d.Delay, Jitter: d.Jitter, Duplicate: d.Duplicate, Corrupt: d.Corrupt, Seed: d.Seed,
		Distribution: map[link.JitterShape]tc.Distribution{link.Normal: tc.Normal, link.Pareto: tc.Pareto}[d.Shape],
	}
	if d.Delay > 0 { // otherwise there is nobody to overtake
		spec.Reorder = d.Reorder
	}
	if d.KeepOrder && d.Jitter > 0 {
		spec.Rate = atOnce
	}
	spec.Loss, _ = d.Loss.Netem() // what it cannot do, Check has refused
	return spec
}

// remember takes down what the devices have lost before.
func (c *chain) remember() (err error) {
	if c.paced {
		if c.before.spare, err = link.ReadDrops(c.running.ns, c.spare); err != nil {
			return err
		}
	}
	c.before.to, err = link.ReadDrops(c.running.ns, c.to)
	return err
}

func (c *chain) counters() (link.Counters, error) {
	var n link.Counters
	received, err := c.wires[len(c.wires)-1].received() // the wire from the near end was attached last
	if err != nil {
		return n, err
	}
	n.Received = received
	if c.paced {
		bottleneck, err := c.root(c.spare)
		if err != nil {
			return n, err
		}
		n.QueueDrops, n.Held = bottleneck.Drops, bottleneck.Queued
		lost, err := link.ReadDrops(c.running.ns, c.spare)
		if err != nil {
			return n, err
		}
		n.Overruns = lost.Transmit - c.before.spare.Transmit
	}
	shaper, err := c.root(c.to)
	if err != nil {
		return n, err
	}
	n.Held += shaper.Queued
	n.Sent, n.SentBytes, n.LossDrops = shaper.Packets, shaper.Bytes, shaper.Drops
	lost, err := link.ReadDrops(c.running.ns, c.to)
	if err != nil {
		return n, err
	}
	n.Overruns += lost.Transmit - c.before.to.Transmit
	if out, in := n.Sent+n.LossDrops+n.Held+n.QueueDrops, n.Received; c.direction.Duplicate > 0 && out > in {
		n.Duplicated = out - in
	}
	return n, nil
}

// root is the outermost qdisc of a device.
func (c *chain) root(dev string) (tc.Qdisc, error) {
	all, err := c.running.qdiscs.List(dev)
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

// remove undoes build, as far as it got.
func (c *chain) remove() error {
	for _, w := range c.wires {
		w.close()
	}
	var failures []error
	if c.shaped {
		failures = append(failures, c.running.qdiscs.Delete(c.to, tc.Place{}))
	}
	if c.paced {
		failures = append(failures, c.running.conn.Delete(c.spare))
	}
	return errors.Join(failures...)
}

var errNoQdisc = errors.New("the link's queueing discipline is gone")
