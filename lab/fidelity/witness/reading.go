// SPDX-License-Identifier: Apache-2.0

package witness

import (
	"context"
	"fmt"
	"time"

	"weir/internal/kernel/netns"
	"weir/internal/kernel/protocols"
	"weir/internal/kernel/rtnl"
	"weir/internal/kernel/tc"
	"weir/internal/wait"
	"weir/lab/link"
)

// reading is every counter at one time.
type reading struct {
	places map[string]placeCount
	links  []link.Status
}

type placeCount struct {
	protocols protocols.Counters
	devices   map[string]rtnl.Traffic
	qdiscs    map[string]tc.Qdisc // roots, by device
}

func (w *Witness) read() (reading, error) {
	now := reading{places: map[string]placeCount{}}
	for _, p := range w.bed.Places {
		count, err := readPlace(p.Namespace)
		if err != nil {
			return now, fmt.Errorf("read the counters of %s: %w", p.Name, err)
		}
		now.places[p.Name] = count
	}
	if w.bed.Carrying == nil {
		return now, nil
	}
	var err error
	if now.links, err = w.bed.Carrying.Status(); err != nil {
		return now, fmt.Errorf("read the links' counters: %w", err)
	}
	return now, nil
}

func readPlace(ns *netns.Namespace) (count placeCount, err error) {
	devices, err := rtnl.Open(ns)
	if err != nil {
		return count, err
	}
	defer devices.Close()
	queues, err := tc.Open(ns)
	if err != nil {
		return count, err
	}
	defer queues.Close()
	if count.protocols, err = protocols.Read(ns); err != nil {
		return count, err
	}
	if count.devices, err = devices.AllTraffic(); err != nil {
		return count, err
	}
	count.qdiscs, err = queues.Roots()
	return count, err
}

// Links are drained when nothing is inside and nothing has come for a while.
const (
	drainLook = 10 * time.Millisecond
	drainMore = 2 * time.Second
)

// Drain waits until the links are empty: at most as long as their queues and delays hold frames,
// and drainMore.
func (w *Witness) Drain(ctx context.Context) (empty bool, err error) {
	if w.bed.Carrying == nil {
		return true, wait.For(ctx, drainLook) // a veth hands over at once
	}
	longest := drainMore
	for _, l := range w.bed.Links {
		longest += inside(l.Forward) + inside(l.Reverse)
	}
	var before uint64
	for begin, quiet := time.Now(), 0; time.Since(begin) < longest; {
		status, err := w.bed.Carrying.Status()
		if err != nil {
			return false, fmt.Errorf("wait for empty links: %w", err)
		}
		var held, received uint64
		for _, s := range status {
			held += s.Forward.Held + s.Reverse.Held
			received += s.Forward.Received + s.Reverse.Received
		}
		if quiet++; held > 0 || received != before {
			quiet, before = 0, received
		}
		if quiet >= 2 {
			return true, nil
		}
		if err := wait.For(ctx, drainLook); err != nil {
			return false, err
		}
	}
	return false, nil
}

// inside is how long a frame may be inside a direction: its delay with jitter, and a full queue.
func inside(d link.Direction) time.Duration {
	return d.Peak().Delay + 4*d.Jitter + queueTime(d)
}

// queueTime is how long a full queue takes; a second where it has no limit.
func queueTime(d link.Direction) time.Duration {
	if d.Rate == 0 {
		return 0
	}
	octets := float64(d.Queue.Bytes)
	if packets := float64(d.Queue.Packets) * 1538; octets == 0 || packets > 0 && packets < octets {
		octets = packets
	}
	if octets == 0 {
		return time.Second
	}
	return time.Duration(octets*8/float64(d.Slowest())*1e9) + 2*d.Cycle()
}
