// SPDX-License-Identifier: Apache-2.0

package shape

import (
	"fmt"
	"path/filepath"

	"weir/internal/direction"
	"weir/kernel/device"
)

// record describes an installed shaper. It is written before the device changes and deleted after
// the device is restored.
type record struct {
	Device    string              `json:"device"` // the shaped device
	Index     int                 `json:"index"`
	Direction direction.Direction `json:"direction"`
	From      string              `json:"from,omitempty"`   // path of the network namespace at its other end
	Taken     device.Record       `json:"taken"`            // former tree of the device with the qdisc: the same device, or the ifb
	Nested    bool                `json:"nested,omitempty"` // the tree has another qdisc owner and is not recorded
}

const recordPrefix = "delay-"

// recordKey is the key of a shaper's record.
func recordKey(index int, d direction.Direction) string { return fmt.Sprintf("%d-%s", index, d) }

func (h Host) store() device.Store[record] {
	return device.Store[record]{Dir: h.Files, Prefix: recordPrefix}
}

// acquire finds the record of a shaper, or records and takes over the device at. A record of a
// former device with the same index is ignored.
func (h Host) acquire(l Shaper, at string, index int) (*record, error) {
	have, err := h.find(l.Index, l.Direction)
	if err != nil {
		return nil, err
	}
	if have != nil && have.Taken.Index == index && have.Taken.Here() && have.Nested == l.Nested {
		if have.Device == l.Device && have.Taken.Device == at && have.From == l.From {
			return have, nil
		}
		ours, err := h.attached(place{l.Device, hookOf(l.Direction)})
		if err != nil {
			return nil, err
		}
		if ours { // the device was renamed
			have.Device, have.Taken.Device, have.From = l.Device, at, l.From
			return have, h.write(have)
		}
	}
	r := &record{Device: l.Device, Index: l.Index, Direction: l.Direction, From: l.From, Nested: l.Nested}
	if !l.Nested {
		r.Taken, err = device.Take(nil, at, owner, filepath.Join(h.Pins, "kept"))
	} else if err = have.restore(); err == nil {
		r.Taken, err = device.Name(nil, at, owner)
	}
	if err != nil {
		return nil, err
	}
	return r, h.write(r)
}

// find returns the record of a shaper, or nil.
func (h Host) find(index int, d direction.Direction) (*record, error) {
	return h.store().Find(recordKey(index, d))
}

// write replaces a record atomically.
func (h Host) write(r *record) error { return h.store().Put(recordKey(r.Index, r.Direction), *r) }
