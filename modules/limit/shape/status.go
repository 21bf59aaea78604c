// SPDX-License-Identifier: Apache-2.0

package shape

import (
	"errors"
	"path/filepath"

	"github.com/cilium/ebpf"

	"weir/internal/direction"
	"weir/kernel/device"
)

// InPlace reports whether everything that work needs exists. It does not compare the contents of
// maps.
func (h Host) InPlace(work Work) (bool, error) {
	want, err := h.AtDevices(work)
	if err != nil {
		return false, err
	}
	p, err := open(h.loaded())
	if missing(err) {
		all, err := h.store().All()
		return len(work.Shapers) == 0 && len(all) == 0, err
	}
	if err != nil {
		return false, err
	}
	defer func() { _ = p.close() }()
	all, err := h.store().All()
	if err != nil || len(all) != len(want) {
		return false, err
	}
	for _, l := range want {
		if in, err := h.inPlace(l); err != nil || !in {
			return false, err
		}
	}
	return true, nil
}

func (h Host) inPlace(l Shaper) (bool, error) {
	r, err := h.find(l.Index, l.Direction)
	if err != nil || r == nil || r.Nested != l.Nested {
		return false, err
	}
	at := l.Device // may have another name than in the record
	if l.Direction == direction.Ingress {
		at = r.Taken.Device // the ifb
	}
	hooks := []place{{at, device.Egress}}
	if l.Direction == direction.Ingress {
		hooks = append(hooks, place{l.Device, device.Ingress})
	}
	for _, at := range hooks {
		there, err := h.attached(at)
		if err != nil || !there {
			return false, err
		}
	}
	if r.Nested {
		return true, nil // the tree has another qdisc owner
	}
	tree, err := device.Snapshot(nil, at)
	if errors.Is(err, device.ErrGone) {
		return false, nil
	}
	return err == nil && len(tree.Qdiscs) > 0 && tree.Qdiscs[0].Handle == device.RootHandle, err
}

type place struct {
	device string
	hook   device.Hook
}

// hookOf returns the hook of a shaper's program at its device.
func hookOf(d direction.Direction) device.Hook {
	if d == direction.Ingress {
		return device.Ingress
	}
	return device.Egress
}

func (h Host) attached(at place) (there bool, err error) {
	hooks, err := device.Hooks(nil, at.device, owner, h.Devices)
	if errors.Is(err, device.ErrGone) {
		return false, nil
	}
	return hooks[at.hook], err
}

// Counters returns the counters of a shaper; there is false if it is not active.
func (h Host) Counters(l Shaper) (c Counters, there bool, err error) {
	key := keyOf(l.Index, l.Direction)
	if l.Device != "" {
		r, err := h.find(l.Index, l.Direction)
		if err != nil || r == nil {
			return c, false, err
		}
		key = uint32(r.Taken.Index)
	}
	p, err := open(h.loaded())
	if missing(err) {
		return c, false, nil
	}
	if err != nil {
		return c, false, err
	}
	defer func() { _ = p.close() }()
	c, err = p.counters(key)
	if errors.Is(err, ebpf.ErrKeyNotExist) {
		return c, false, nil
	}
	return c, err == nil, err
}

// Any reports whether records or pins exist.
func (h Host) Any() (bool, error) {
	all, err := h.store().All()
	if err != nil || len(all) > 0 {
		return true, err
	}
	pins, err := filepath.Glob(filepath.Join(h.Pins, "*"))
	return len(pins) > 0, err
}
