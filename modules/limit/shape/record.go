// SPDX-License-Identifier: Apache-2.0

package shape

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"weir/internal/atomicfile"
	"weir/internal/direction"
	"weir/internal/fault"
	"weir/kernel/device"
	"weir/kernel/storage"
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

const recordSuffix = ".json"

func recordName(index int, d direction.Direction) string {
	return fmt.Sprintf("delay-%d-%s%s", index, d, recordSuffix)
}

func (h Host) path(index int, d direction.Direction) string {
	return filepath.Join(h.Files, recordName(index, d))
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
func (h Host) find(index int, d direction.Direction) (*record, error) { return read(h.path(index, d)) }

func read(path string) (*record, error) {
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	r := &record{}
	if err == nil {
		err = json.Unmarshal(text, r)
	}
	if err != nil {
		return nil, fault.Wrap(fmt.Errorf("read record of a former qdisc tree: %w", err), fault.Failed, "remove the file and the qdiscs: tc qdisc del dev DEVICE root")
	}
	return r, nil
}

// records returns all records.
func (h Host) records() (all []*record, err error) {
	if h.Files == "" {
		return nil, nil
	}
	paths, err := filepath.Glob(filepath.Join(h.Files, "delay-*"+recordSuffix))
	if err != nil {
		return nil, fmt.Errorf("find records of former qdisc trees: %w", err)
	}
	for _, path := range paths {
		r, err := read(path)
		if err != nil {
			return nil, err
		}
		if r != nil {
			all = append(all, r)
		}
	}
	return all, nil
}

// write replaces a record atomically.
func (h Host) write(r *record) error {
	text, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("record qdisc tree of %s: %w", r.Taken.Device, err)
	}
	path := h.path(r.Index, r.Direction)
	if err = os.MkdirAll(h.Files, 0o700); err == nil {
		err = atomicfile.WriteBytes(path, 0o600, text)
	}
	if err != nil {
		return storage.Fault(fmt.Errorf("record qdisc tree of %s: %w", r.Taken.Device, err))
	}
	return nil
}

func (h Host) deleteRecord(r *record) error {
	err := os.Remove(h.path(r.Index, r.Direction))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("delete record of %s: %w", r.Taken.Device, err)
	}
	_ = os.Remove(h.Files) // fails unless it is empty
	return nil
}
