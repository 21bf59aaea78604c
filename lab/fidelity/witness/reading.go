// SPDX-License-Identifier: Apache-2.0

package witness

import (
	"fmt"

	"weir/internal/kernel/netns"
	"weir/internal/kernel/protocols"
	"weir/internal/kernel/rtnl"
	"weir/internal/kernel/tc"
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
	now := reading{places: map[string]placeCount{}}
	for _, p := range w.bed.Places {
		count, err := readPlace(p.Namespace)
		if err == nil && p.Programs != nil {
			count.programs, err = p.Programs()
		}
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
	if count.devices, err = link.Traffic(devices, ns); err != nil {
		return count, err
	}
	count.qdiscs, err = queues.Roots()
	return count, err
}
