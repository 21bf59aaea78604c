// SPDX-License-Identifier: Apache-2.0

package node

import (
	"errors"
	"fmt"

	"github.com/cilium/ebpf"

	"weir/core/match"
	"weir/kernel/bpffs"
)

// withCapacity returns this data plane, or a larger replacement of it.
func (d *dataPlane) withCapacity(s sizes) (*dataPlane, error) {
	used, err := d.usedEncapsulations()
	if err != nil {
		return nil, errors.Join(err, d.close())
	}
	s.beside(used)
	small, err := d.lacking(s)
	if err == nil && len(small) == 0 {
		return d, nil
	}
	defer func() { _ = d.close() }()
	if err != nil {
		return nil, err
	}
	return d.grow(s, small)
}

// lacking returns the maps that are smaller than a policy needs.
func (d *dataPlane) lacking(s sizes) (map[string]bool, error) {
	spec, err := d.spec(s)
	if err != nil {
		return nil, err
	}
	small := map[string]bool{}
	for name, m := range match.Fields(&d.objects.ioamMaps) {
		if (*m).MaxEntries() < spec.Maps[name].MaxEntries {
			small[name] = true
		}
	}
	return small, nil
}

// grow replaces this pinned data plane by one with larger maps. It copies the small maps and shares
// the others. Devices keep the former programs until attach.
func (d *dataPlane) grow(s sizes, small map[string]bool) (larger *dataPlane, err error) {
	shared := map[string]*ebpf.Map{}
	before := match.Fields(&d.objects.ioamMaps)
	for name, m := range before {
		if !small[name] {
			shared[name] = *m
		}
	}
	if larger, err = loadWith(d.ns, d.pins, s, shared); err != nil {
		return nil, err
	}
	after := match.Fields(&larger.objects.ioamMaps)
	for name := range small {
		if err = copyMap(name, *before[name], *after[name]); err != nil {
			err = fmt.Errorf("copy %s: %w", name, err)
			break
		}
	}
	if err == nil {
		err = larger.replacePins(small)
	}
	if err != nil {
		return nil, errors.Join(err, larger.close())
	}
	return larger, nil
}

func copyMap(name string, from, to *ebpf.Map) error {
	switch name {
	case ioamMapIoamRecords:
		return nil // readers open the new map
	case ioamMapIoamScopeCounted:
		return bpffs.CopyEach[ioamIoamScopeCounts](from, to)
	}
	if err := bpffs.Copy(from, to); err != nil && !errors.Is(err, ebpf.ErrIterationAborted) { // flows may end during the copy
		return err
	}
	return nil
}

// replacePins replaces the pins of the new maps and of all programs.
func (d *dataPlane) replacePins(small map[string]bool) error {
	pins := map[string]bpffs.Pinner{}
	maps := match.Fields(&d.objects.ioamMaps)
	for name := range small {
		pins[mapPin(name)] = *maps[name]
	}
	for name, p := range d.programPins() {
		pins[name] = *p
	}
	return bpffs.Replace(d.pins, pins, nil)
}
