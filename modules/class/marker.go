// SPDX-License-Identifier: Apache-2.0

package class

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/rlimit"

	"weir/core/match"
	"weir/core/module"
	"weir/internal/dscp"
	"weir/kernel/bpferr"
	"weir/kernel/bpffs"
	"weir/kernel/bpfmap"
)

// marker holds the marking program, the program that stores the class of requests, and their maps.
// It has no effect before fill.
type marker struct {
	program, ask *ebpf.Program
	maps         markMaps
}

// programPin is pinned last: its presence means that all pins exist.
const programPin, askPin = "program", "ask"

// flows is the capacity for flows of scopes that answer in the class of the request.
const flows = 65_536

// loadMarker loads the programs for a number of scopes; asked adds those for the class of requests.
func loadMarker(scopes int, asked bool) (*marker, error) {
	spec, err := loadMark()
	if err != nil {
		return nil, fmt.Errorf("read marking program: %w", err)
	}
	for _, name := range []string{markMapClassScopes, markMapClassCounters} {
		spec.Maps[name].MaxEntries = uint32(scopes)
	}
	if asked {
		spec.Maps[markMapClassFlows].MaxEntries = flows
	}
	if err := rlimit.RemoveMemlock(); err != nil {
		return nil, programNeeds.Fault("lift memory lock limit", err)
	}
	if err := match.Prepare(spec, ebpf.SchedCLS, scopes); err != nil {
		return nil, err
	}
	var objects markObjects
	if err := spec.LoadAndAssign(&objects, nil); err != nil {
		return nil, programNeeds.Fault("load marking program", err)
	}
	return &marker{objects.ClassMark, objects.ClassAsk, objects.markMaps}, nil
}

// programNeeds lists the requirements of the programs.
var programNeeds = bpferr.Needs{Capabilities: bpferr.Standard, Kernel: "Linux 6.1 or later with CONFIG_BPF_JIT"}

func (m *marker) close() error {
	var err error
	for _, p := range []*ebpf.Program{m.program, m.ask} {
		if p != nil {
			err = errors.Join(err, p.Close())
		}
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
		err = bpffs.Fault(m.ask.Pin(filepath.Join(dir, askPin)))
	}
	if err == nil {
		err = bpffs.Fault(m.program.Pin(filepath.Join(dir, programPin)))
	}
	if err != nil {
		return fmt.Errorf("pin marking programs: %w", err)
	}
	return nil
}

// layouts holds the layouts of the maps.
var layouts = bpffs.Layouts(loadMark)

// openMarker opens the pins. The error is fs.ErrNotExist if they do not fit this version.
func openMarker(dir string) (m *marker, err error) {
	layouts, err := layouts()
	if err != nil {
		return nil, fmt.Errorf("read marking program: %w", err)
	}
	m = &marker{}
	if m.program, err = ebpf.LoadPinnedProgram(filepath.Join(dir, programPin), nil); err != nil {
		return nil, bpffs.Opening(err)
	}
	if m.ask, err = ebpf.LoadPinnedProgram(filepath.Join(dir, askPin), nil); err != nil {
		return nil, errors.Join(bpffs.Opening(err), m.close())
	}
	if err = bpffs.Maps(m.fields()).Open(dir, layouts); err != nil {
		return nil, errors.Join(err, m.close())
	}
	return m, nil
}

// settings returns the parameters of the programs; Filled is 1 after a complete fill.
func (m *marker) settings() (settings markClassSettings, err error) {
	if err := m.maps.ClassCurrent.Lookup(uint32(0), &settings); err != nil {
		return settings, fmt.Errorf("read marking program's settings: %w", err)
	}
	return settings, nil
}

// remembers reports whether the marker has capacity for flows.
func (m *marker) remembers() bool { return m.maps.ClassFlows.MaxEntries() >= flows }

// fill leads from one state's scopes to another's. Numbers that are free again count from zero.
func (m *marker) fill(have, want module.State, host match.Key) error {
	stays := want.ByIndex()
	for _, b := range want.Scopes {
		if err := m.maps.ClassScopes.Put(uint32(b.Index), treatmentOf(b.Scope).raw()); err != nil {
			return programNeeds.Fault("set scope "+b.Name, err)
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
	if err := m.maps.ClassCurrent.Put(uint32(0), markClassSettings{Kinds: kinds, Filled: 1, Asked: asked(want), Priority: priorities()}); err != nil {
		return programNeeds.Fault("set marking program", err)
	}
	for _, b := range have.Scopes {
		if _, kept := stays[b.Index]; kept {
			continue
		}
		if err := bpfmap.Clear[markClassCounts](m.maps.ClassCounters, uint32(b.Index)); err != nil {
			return fmt.Errorf("clear counters of scope %s: %w", b.Name, err)
		}
	}
	return nil
}

// raw is the treatment as the programs read it.
func (t *Treatment) raw() markClassScope {
	return markClassScope{Dscp: uint32(t.DSCP), Asked: bits(t.Asked)}
}

// bits has a bit for each code point.
func bits(list []dscp.DSCP) (set uint64) {
	for _, d := range list {
		set |= 1 << d
	}
	return set
}

// asked returns the accepted classes of all scopes of a state.
func asked(s module.State) (set uint64) {
	for _, b := range s.Scopes {
		set |= bits(treatmentOf(b.Scope).Asked)
	}
	return set
}

// priorities returns the priorities in this host's queues by DSCP.
func priorities() (all [64]uint8) {
	for i := range all {
		if priority, given := dscp.DSCP(i).Priority(); given {
			all[i] = uint8(priority + 1)
		}
	}
	return all
}

// counts sums the per-CPU counters of a scope.
func (m *marker) counts(index int) (sum Counts, err error) {
	c, err := bpfmap.Sum[markClassCounts](m.maps.ClassCounters, uint32(index))
	if err != nil {
		return sum, fmt.Errorf("read scope's counters: %w", err)
	}
	return Counts{Packets: c.Packets, Octets: c.Octets, Marked: c.Marked, Failed: c.Failed}, nil
}

// unpinMarker removes the pins, complete or not.
func unpinMarker(dir string) error {
	paths, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil {
		return fmt.Errorf("unpin marking program: %w", err)
	}
	return bpffs.Remove(append(append([]string{filepath.Join(dir, programPin)}, paths...), dir)...)
}

// gone reports whether no usable pin exists.
func gone(err error) bool { return errors.Is(err, fs.ErrNotExist) }
