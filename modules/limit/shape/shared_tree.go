// SPDX-License-Identifier: Apache-2.0

package shape

import (
	"slices"

	"weir/internal/direction"
	"weir/kernel/device"
)

/*
 * Packets of scopes may wait in the tree of another qdisc owner if that tree keeps departure times:
 * the charging program marks such packets (bpf/departs.h). The shaper has a record, which contains
 * no former tree.
 */

// markNested sets Nested for egress shapers on devices with another qdisc owner.
func (w Work) markNested(all []Shaper) []Shaper {
	all = slices.Clone(all)
	for i, l := range all {
		all[i].Nested = l.Direction == direction.Egress && w.Shared[l.Device]
	}
	return all
}

// restoreNested restores the former trees of shapers that become nested. Their packets are charged
// throughout, but do not wait until the owner's tree is installed.
func (h Host) restoreNested(want []Shaper) error {
	for _, l := range want {
		r, err := h.find(l.Index, l.Direction)
		if err != nil {
			return err
		}
		if r == nil || !l.Nested || r.Nested {
			continue
		}
		if err := r.restore(); err != nil {
			return err
		}
		r.Nested, r.Taken.Before, r.Taken.Pins = true, device.Tree{}, ""
		if err := h.write(r); err != nil {
			return err
		}
	}
	return nil
}

// restore restores the former tree, if any, of a device that may be gone.
func (r *record) restore() error {
	if r == nil || r.Nested {
		return nil
	}
	if other, err := r.Taken.Usurper(nil); err != nil || other != "" {
		return err // the device has another owner now
	}
	return r.Taken.Return(nil)
}
