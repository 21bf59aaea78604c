// SPDX-License-Identifier: Apache-2.0

package class

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"weir/internal/dscp"

	"weir/core/match"
	"weir/core/module"
	"weir/core/policy"
	"weir/core/selector"
	"weir/kernel/cgroup"
	"weir/kernel/device"
	"weir/kernel/rtnl"
)

// Orders at a device for marks of a process: after those of a policy, which the process overrides.
const firstOrder, lastOrder device.Order = 899, 600

// Marks is a program at the devices of this network namespace, and the cgroups with marked packets.
// It ends at Close or with the process. It is safe for concurrent use.
type Marks struct {
	mu     sync.Mutex // guards the rest
	marker *marker
	most   int
	have   module.State
	at     map[int]*device.Attachment // by the device's index
}

// OpenMarks loads the program for a maximum number of cgroups.
func OpenMarks(most int) (*Marks, error) {
	m, err := loadMarker(most, false)
	if err != nil {
		return nil, err
	}
	return &Marks{marker: m, most: most, at: map[int]*device.Attachment{}}, nil
}

// Add marks packets of a cgroup and its descendants at the current devices.
func (m *Marks) Add(path string, d dscp.DSCP) (*Marked, error) {
	id, err := cgroup.Cgroup{Path: path}.ID()
	if err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	taken := m.have.ByIndex()
	if len(taken) >= m.most {
		return nil, fmt.Errorf("mark cgroup %s: %d are marked already", path, m.most)
	}
	index := 0
	for ; taken[index].Name != ""; index++ {
	}
	one := policy.Scope{Name: path, Treatments: map[string]policy.Treatment{moduleName: &Treatment{DSCP: d}}}
	scopes := append(slices.Clone(m.have.Scopes), module.Bound{Scope: one, Index: index, Binding: selector.Binding{Key: match.OfCgroup(id)}})
	if err := m.become(scopes); err != nil {
		return nil, err
	}
	if err := m.attach(); err != nil {
		return nil, errors.Join(err, m.drop(index))
	}
	return &Marked{marks: m, index: index}, nil
}

// become leads to other cgroups.
func (m *Marks) become(scopes []module.Bound) error {
	want := module.State{Scopes: scopes}
	if err := m.marker.fill(m.have, want, match.Key{}); err != nil {
		return err
	}
	m.have = want
	return nil
}

func (m *Marks) drop(index int) error {
	return m.become(slices.DeleteFunc(slices.Clone(m.have.Scopes), func(b module.Bound) bool { return b.Index == index }))
}

// attach attaches to new devices and releases removed ones.
func (m *Marks) attach() error {
	all, err := devices(nil)
	if err != nil {
		return err
	}
	there := map[int]bool{}
	for _, d := range all {
		there[d.Index] = true
		if m.at[d.Index] == nil {
			if err := m.attachTo(d); err != nil {
				return err
			}
		}
	}
	for index, a := range m.at {
		if !there[index] {
			_ = a.Close() // removed with its device
			delete(m.at, index)
		}
	}
	return nil
}

// attachTo attaches at a device, behind others that mark for a process.
func (m *Marks) attachTo(d rtnl.Device) error {
	for order := firstOrder; order >= lastOrder; order-- {
		a, err := device.Attach(nil, d.Name, device.Egress, order, "run", m.marker.program, device.Options{})
		switch {
		case errors.Is(err, device.ErrGone):
			return nil
		case errors.Is(err, device.ErrTaken):
			continue
		case err != nil:
			return programNeeds.Fault("mark at device "+d.Name, err)
		}
		m.at[d.Index] = a
		return nil
	}
	return fmt.Errorf("mark at device %s: %d processes mark there already", d.Name, firstOrder-lastOrder+1)
}

// Close takes the program from all devices.
func (m *Marks) Close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	var all []error
	for _, a := range m.at {
		all = append(all, a.Close())
	}
	return errors.Join(append(all, m.marker.close())...)
}

// Marked is one cgroup of them.
type Marked struct {
	marks *Marks
	index int
	alone bool // the marks go with it
}

// Mark marks packets of a cgroup and its descendants at the devices of this network namespace that
// exist now. It ends at Close or with the process.
func Mark(path string, d dscp.DSCP) (*Marked, error) {
	marks, err := OpenMarks(1)
	if err != nil {
		return nil, err
	}
	marked, err := marks.Add(path, d)
	if err != nil {
		return nil, errors.Join(err, marks.Close())
	}
	marked.alone = true
	return marked, nil
}

// Counts returns the counters.
func (m *Marked) Counts() (Counts, error) {
	m.marks.mu.Lock()
	defer m.marks.mu.Unlock()
	return m.marks.marker.counts(m.index)
}

// Close ends the mark; another cgroup may reuse its number.
func (m *Marked) Close() error {
	if m.alone {
		return m.marks.Close()
	}
	m.marks.mu.Lock()
	defer m.marks.mu.Unlock()
	return m.marks.drop(m.index)
}
