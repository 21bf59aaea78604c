// SPDX-License-Identifier: Apache-2.0

package witness

import (
	"fmt"
	"runtime"

	"golang.org/x/sync/errgroup"

	"weir/kernel/netns"
	"weir/kernel/protocols"
	"weir/kernel/rtnl"
	"weir/kernel/tc"
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
	programs  Programs
}

func (w *Witness) read() (reading, error) {
	now := reading{places: make(map[string]placeCount, len(w.bed.Places))}
	counts := make([]placeCount, len(w.bed.Places))
	err := w.eachPlace(func(i int, p Place) (err error) {
		counts[i], err = readPlace(p.Namespace)
		if err == nil && p.Programs != nil {
			counts[i].programs, err = p.Programs()
		}
		if err != nil {
			return fmt.Errorf("read the counters of %s: %w", p.Name, err)
		}
		return nil
	})
	if err != nil {
		return now, err
	}
	for i, p := range w.bed.Places {
		now.places[p.Name] = counts[i]
	}
	if w.bed.Carrying == nil {
		return now, nil
	}
	if now.links, err = w.bed.Carrying.Status(); err != nil {
		return now, fmt.Errorf("read the links' counters: %w", err)
	}
	return now, nil
}

// eachPlace processes as many places concurrently as there are CPUs.
func (w *Witness) eachPlace(f func(i int, p Place) error) error {
	var group errgroup.Group
	group.SetLimit(runtime.NumCPU())
	for i, p := range w.bed.Places {
		group.Go(func() error { return f(i, p) })
	}
	return group.Wait()
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
	if count.devices, err = link.Traffic(devices, ns); err != nil {
		return count, err
	}
	count.qdiscs, err = queues.Roots()
	return count, err
}
