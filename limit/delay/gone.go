// SPDX-License-Identifier: Apache-2.0

package delay

import (
	"errors"
	"slices"

	"weir/internal/kernel/rtnl"
)

// beginWhereItIs begins a line of which the device may go meanwhile: then it ends what it left.
func (h Host) beginWhereItIs(p *programs, l Line) error {
	err := h.begin(p, l)
	if err == nil {
		return nil
	}
	links, unseen := rtnl.Open(nil)
	if unseen != nil {
		return errors.Join(err, unseen)
	}
	defer links.Close()
	devices, unseen := links.Devices()
	if unseen != nil || slices.ContainsFunc(devices, func(d rtnl.Device) bool { return d.Index == l.Index }) {
		return errors.Join(err, unseen)
	}
	left, err := h.find(l.Index, l.Direction)
	if err != nil || left == nil {
		return err
	}
	return h.end(p, left)
}

// endGone ends the lines of devices that have gone.
func (h Host) endGone(p *programs) error {
	links, err := rtnl.Open(nil)
	if err != nil {
		return err
	}
	defer links.Close()
	devices, err := links.Devices()
	if err != nil {
		return err
	}
	there := map[int]bool{}
	for _, d := range devices {
		there[d.Index] = true
	}
	all, err := h.records()
	for _, r := range all {
		if !there[r.Index] {
			err = errors.Join(err, h.end(p, r))
		}
	}
	return err
}
