// SPDX-License-Identifier: Apache-2.0

package class

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/rlimit"

	"weir/internal/fault"
	"weir/internal/kernel/bpffs"
	"weir/internal/match"
	"weir/internal/room"
)

// marker is the program that marks, and its maps. It does nothing before fill.
type marker struct {
	program *ebpf.Program
	maps    markMaps
}

// programPin is pinned last: where it is, everything is.
const programPin = "program"

// loadMarker loads the program for so many scopes.
func loadMarker(scopes int) (*marker, error) {
	spec, err := loadMark()
	if err != nil {
		return nil, fmt.Errorf("read marking program: %w", err)
	}
	for _, name := range []string{markMapClassScopes, markMapClassCounters} {
		spec.Maps[name].MaxEntries = uint32(scopes)
	}
	if err := rlimit.RemoveMemlock(); err != nil {
		return nil, refused("lift memory lock limit", err)
	}
	if err := match.Prepare(spec, ebpf.SchedCLS, scopes); err != nil {
		return nil, err
	}
	var objects markObjects
	if err := spec.LoadAndAssign(&objects, nil); err != nil {
		return nil, refused("load marking program", err)
	}
	return &marker{objects.ClassMark, objects.markMaps}, nil
}

func refused(what string, err error) error {
	return fault.Wrap(fmt.Errorf("%s: %w", what, err), fault.Permission, "run it as root, or with CAP_BPF, CAP_NET_ADMIN and CAP_PERFMON")
}

func (m *marker) close() error {
	var err error
	if m.program != nil {
		err = m.program.Close()
	}
	return errors.Join(err, m.maps.Close())
}

func (m *marker) fields() map[string]**ebpf.Map { return match.Fields(&m.maps) }

// pin keeps program and maps under dir.
func (m *marker) pin(dir string) error {
	err := bpffs.Make(dir)
	if err == nil {
		err = bpffs.Maps(m.fields()).Pin(dir)
	}
	if err == nil {
		if err = m.program.Pin(filepath.Join(dir, programPin)); err != nil {
			err = bpffs.Fault(fmt.Errorf("pin marking program: %w", err))
		}
	}
	return err
}

// openMarker opens what pin has kept. The error is fs.ErrNotExist where it is not there as this
// version needs it.
func openMarker(dir string) (m *marker, err error) {
	spec, err := loadMark()
	if err != nil {
		return nil, fmt.Errorf("read marking program: %w", err)
	}
	m = &marker{}
	if m.program, err = ebpf.LoadPinnedProgram(filepath.Join(dir, programPin), nil); err != nil {
		return nil, bpffs.Opening(err)
	}
	if err = bpffs.Maps(m.fields()).Open(dir, spec); err != nil {
		return nil, errors.Join(err, m.close())
	}
	return m, nil
}

// filled says whether everything was set at least once.
func (m *marker) filled() (bool, error) {
	var settings markClassSettings
	if err := m.maps.ClassCurrent.Lookup(uint32(0), &settings); err != nil {
		return false, fmt.Errorf("read marking program's settings: %w", err)
	}
	return settings.Filled == 1, nil
}

// fill leads from one state's scopes to another's. Numbers that are free again count from zero.
func (m *marker) fill(have, want room.State, host match.Key) error {
	stays := want.ByIndex()
	for _, b := range want.Scopes {
		if err := m.maps.ClassScopes.Put(uint32(b.Index), treatmentOf(b.Scope).DSCP.raw()); err != nil {
			return refused("set scope "+b.Name, err)
		}
	}
	maps := match.Maps{Program: ebpf.SchedCLS, Entries: m.fields()}
	if err := maps.SetOrders(have.Orders(host), want.Orders(host)); err != nil {
		return err
	}
	kinds, err := maps.Reassign(have.Assignments(), want.Assignments())
	if err != nil {
		return err
	}
	if len(want.Places()) > 0 {
		kinds |= match.Cgroups // some may come
	}
	if err := m.maps.ClassCurrent.Put(uint32(0), markClassSettings{Kinds: kinds, Filled: 1}); err != nil {
		return refused("set marking program", err)
	}
	zeros := make([]markClassCounts, ebpf.MustPossibleCPU())
	for _, b := range have.Scopes {
		if _, kept := stays[b.Index]; kept {
			continue
		}
		if err := m.maps.ClassCounters.Put(uint32(b.Index), zeros); err != nil {
			return fmt.Errorf("clear counters of scope %s: %w", b.Name, err)
		}
	}
	return nil
}

func (d DSCP) raw() markClassScope {
	raw := markClassScope{Dscp: uint32(d)}
	if priority, given := d.priority(); given {
		raw.Priority = priority + 1
	}
	return raw
}

// counts adds up a scope's counters of all processors.
func (m *marker) counts(index int) (sum Counts, err error) {
	var cpus []markClassCounts
	if err := m.maps.ClassCounters.Lookup(uint32(index), &cpus); err != nil {
		return sum, fmt.Errorf("read scope's counters: %w", err)
	}
	for _, cpu := range cpus {
		sum.add(Counts{Packets: cpu.Packets, Octets: cpu.Octets, Marked: cpu.Marked, Failed: cpu.Failed})
	}
	return sum, nil
}

// unpinMarker removes what pin has kept, or a crash has left of it.
func unpinMarker(dir string) error {
	paths, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil {
		return fmt.Errorf("unpin marking program: %w", err)
	}
	return bpffs.Remove(append(append([]string{filepath.Join(dir, programPin)}, paths...), dir)...)
}

// gone says that nothing is pinned that can be opened.
func gone(err error) bool { return errors.Is(err, fs.ErrNotExist) }
