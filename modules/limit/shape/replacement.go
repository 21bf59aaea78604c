// SPDX-License-Identifier: Apache-2.0

package shape

import (
	"slices"

	"weir/internal/direction"
	"weir/kernel/device"
)

// PlanNotes returns the qdisc trees that work would replace, as in "mq with 4 queues at eth0".
// Unreadable trees are omitted.
func (h Host) PlanNotes(w Work) (trees []string) {
	if len(w.Shapers) == 0 {
		return nil
	}
	all, err := h.AtDevices(w)
	if err != nil {
		return nil
	}
	for _, l := range all {
		if before := device.Replaceable(nil, l.Device); l.Direction == direction.Egress && !l.Nested && before != "" {
			trees = append(trees, before+" at "+l.Device)
		}
	}
	slices.Sort(trees)
	return slices.Compact(trees)
}

// Replaced returns the recorded qdisc trees of devices with an active shaper.
func (h Host) Replaced() (trees []string, err error) {
	all, err := h.store().All()
	for _, r := range all {
		if before := r.Taken.Before.String(); r.Direction == direction.Egress && before != "" {
			trees = append(trees, before+" at "+r.Taken.Device)
		}
	}
	slices.Sort(trees)
	return trees, err
}
