// SPDX-License-Identifier: Apache-2.0

package shape

import (
	"errors"
	"slices"

	"weir/internal/direction"
	"weir/kernel/device"
)

/*
 * Packets of scopes may wait in a tree that another room has at a device, if that keeps departure
 * times: the program that charges them tells the tree which they are (bpf/departs.h). The line has
 * a record, so that it is found, and nothing of the device was taken.
 */

// nest says of lines at devices which of them are where another room has the tree.
func (w Work) markNested(all []Line) []Line {
	all = slices.Clone(all)
	for i, l := range all {
		all[i].Nested = l.Direction == direction.Egress && w.Shared[l.Device]
	}
	return all
}

// restoreNested gives the trees back of lines that are to wait in another room's. They are charged
// throughout, though their packets wait nowhere until the other tree is there.
func (h Host) restoreNested(want []Line) error {
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

// restore brings the former tree of a line's device back, which may be gone; nothing where none
// was taken.
func (r *record) restore() error {
	if r == nil || r.Nested {
		return nil
	}
	if err := r.Taken.Restore(nil); err != nil && !errors.Is(err, device.ErrGone) {
		return err
	}
	return nil
}
