// SPDX-License-Identifier: Apache-2.0

package class

import (
	"errors"
	"fmt"

	"weir/internal/kernel/cgroup"
	"weir/internal/kernel/device"
	"weir/internal/match"
	"weir/internal/room"
	"weir/internal/selector"
	"weir/policy"
)

// Orders at a device of what is marked for the life of a process: behind a policy's, which it is to
// have the last word over.
const firstOrder, lastOrder device.Order = 899, 600

// Mark marks what a cgroup, and those below it, send by the devices that this network namespace has
// now. It ends when it is closed, or with the process.
func Mark(path string, d DSCP) (*Marks, error) {
	id, err := cgroup.Cgroup{Path: path}.ID()
	if err != nil {
		return nil, err
	}
	m, err := loadMarker(1, false)
	if err != nil {
		return nil, err
	}
	marks := &Marks{m, nil}
	alone := policy.Scope{Name: path, Treatments: map[string]policy.Treatment{roomName: &Treatment{DSCP: d}}}
	want := room.State{Scopes: []room.Bound{{Scope: alone, Binding: selector.Binding{Key: match.OfCgroup(id)}}}}
	if err := m.fill(room.State{}, want, match.Key{}); err != nil {
		return nil, errors.Join(err, marks.Close())
	}
	names, err := devices(nil)
	for _, name := range names {
		if err == nil {
			err = marks.add(name)
		}
	}
	if err != nil {
		return nil, errors.Join(err, marks.Close())
	}
	return marks, nil
}

// Marks are a program and where it is.
type Marks struct {
	marker *marker
	at     []*device.Attachment
}

// add attaches at a device, behind others that mark for a process.
func (m *Marks) add(name string) error {
	for order := firstOrder; order >= lastOrder; order-- {
		a, err := device.Attach(nil, name, device.Egress, order, "run", m.marker.program, device.Options{})
		switch {
		case errors.Is(err, device.ErrGone):
			return nil
		case errors.Is(err, device.ErrTaken):
			continue
		case err != nil:
			return refused("mark at device "+name, err)
		}
		m.at = append(m.at, a)
		return nil
	}
	return fmt.Errorf("mark at device %s: %d commands are marked there already", name, firstOrder-lastOrder+1)
}

// Counts says what was done so far.
func (m *Marks) Counts() (Counts, error) { return m.marker.counts(0) }

// Close takes the program from all devices.
func (m *Marks) Close() error {
	var all []error
	for _, a := range m.at {
		all = append(all, a.Close())
	}
	return errors.Join(append(all, m.marker.close())...)
}
