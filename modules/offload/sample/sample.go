// SPDX-License-Identifier: Apache-2.0

// Package sample reads sampled destinations of a data plane (sample.h), for the selection of routes
// by a budget.
package sample

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"math/bits"
	"net/netip"
	"path/filepath"

	"github.com/cilium/ebpf"

	"weir/modules/offload/plan"
)

// Maps holds the maps of sample.h. The caller owns them.
type Maps struct{ Places, Facts, Seen *ebpf.Map }

// Names of the maps and of their pins.
const (
	places = "sample_places"
	facts  = "sample_facts"
	seen   = "sample_seen"
)

// Names lists the maps' names.
func Names() []string { return []string{places, facts, seen} }

// Of returns the sampler of named maps.
func Of(all map[string]*ebpf.Map) Sampler { return Sampler{Maps{all[places], all[facts], all[seen]}} }

// By returns the maps by name.
func (m Maps) By() map[string]*ebpf.Map {
	return map[string]*ebpf.Map{places: m.Places, facts: m.Facts, seen: m.Seen}
}

// Ready configures sampling of a program before it is loaded.
func Ready(spec *ebpf.CollectionSpec, on bool) error {
	if !on {
		spec.Maps[places].MaxEntries = 1
		return nil
	}
	if err := spec.Variables["sample_on"].Set(uint32(1)); err != nil {
		return fmt.Errorf("enable sampling: %w", err)
	}
	return nil
}

// Sampler reads and controls the samples of a data plane. The zero value has none.
type Sampler struct{ Maps }

// On reports whether packets are sampled.
func (s Sampler) On() bool {
	return s.Places != nil && s.Places.MaxEntries() == uint32(sampleSampleBoundsSAMPLE_PLACES)
}

// Destinations counts the samples by address; nil without sampling.
func (s Sampler) Destinations() (map[netip.Addr]uint64, error) {
	if !s.On() {
		return nil, nil
	}
	memory, err := s.Places.Memory()
	if err != nil {
		return nil, fmt.Errorf("read samples: %w", err)
	}
	all := make([]byte, memory.Size())
	if _, err := memory.ReadAt(all, 0); err != nil {
		return nil, fmt.Errorf("read samples: %w", err)
	}
	counts := map[netip.Addr]uint64{}
	for size := binary.Size(sampleSamplePlace{}); len(all) >= size; all = all[size:] {
		if a := netip.AddrFrom16([16]byte(all)).Unmap(); !a.IsUnspecified() {
			counts[a]++
		}
	}
	return counts, nil
}

// Choice returns the last selection of routes, without its Changed.
func (s Sampler) Choice() (c plan.Chosen, err error) {
	var f sampleSampleState
	if !s.On() {
		return c, nil
	}
	if err := s.Facts.Lookup(uint32(0), &f); err != nil {
		return c, fmt.Errorf("read the choice of routes: %w", err)
	}
	return plan.Chosen{Budget: int(f.Budget), Rules: int(f.Rules), Routes: int(f.Routes), Chosen: int(f.Chosen), Traffic: f.Traffic, Carried: f.Carried}, nil
}

// Record stores a selection, and sets the sampling rate for an expected number of packets, so that
// about as many are sampled as there are slots; 0 keeps the rate.
func (s Sampler) Record(c plan.Chosen, packets uint64) error {
	if !s.On() {
		return nil
	}
	var f sampleSampleState
	if err := s.Facts.Lookup(uint32(0), &f); err != nil {
		return fmt.Errorf("write the choice of routes: %w", err)
	}
	if packets > 0 {
		const most = 16 // bits of the random number
		f.Mask = 1<<min(most, bits.Len64(packets/uint64(s.Places.MaxEntries()))) - 1
	}
	f.Budget, f.Rules, f.Routes, f.Chosen, f.Traffic, f.Carried = uint64(c.Budget), uint64(c.Rules), uint64(c.Routes), uint64(c.Chosen), c.Traffic, c.Carried
	if err := s.Facts.Put(uint32(0), f); err != nil {
		return fmt.Errorf("write the choice of routes: %w", err)
	}
	return nil
}

// Packets returns the number of packets seen by the sampler.
func (s Sampler) Packets() (n uint64, err error) {
	if !s.On() {
		return 0, nil
	}
	var each []uint64
	if err := s.Seen.Lookup(uint32(0), &each); err != nil {
		return 0, fmt.Errorf("count samples: %w", err)
	}
	for _, one := range each {
		n += one
	}
	return n, nil
}

// InheritPinned continues from samples pinned in a folder, if any.
func (s Sampler) InheritPinned(folder string) error {
	if !s.On() {
		return nil
	}
	before, err := Pinned(folder)
	if err != nil {
		return err
	}
	defer before.Close()
	return s.Inherit(before)
}

// Pinned opens the samples pinned in a folder; the zero value without any.
func Pinned(folder string) (Sampler, error) {
	all := map[string]*ebpf.Map{}
	for _, name := range Names() {
		m, err := ebpf.LoadPinnedMap(filepath.Join(folder, name), nil)
		if err != nil {
			Of(all).Close()
			if errors.Is(err, fs.ErrNotExist) {
				return Sampler{}, nil
			}
			return Sampler{}, fmt.Errorf("open samples: %w", err)
		}
		all[name] = m
	}
	return Of(all), nil
}

// Close releases the maps of [Pinned].
func (s Sampler) Close() {
	for _, m := range s.By() {
		_ = m.Close()
	}
}

// Inherit continues from the samples of another data plane.
func (s Sampler) Inherit(from Sampler) error {
	if !s.On() || !from.On() {
		return nil
	}
	old, err := from.Places.Memory()
	if err != nil {
		return fmt.Errorf("take over samples: %w", err)
	}
	now, err := s.Places.Memory()
	if err != nil {
		return fmt.Errorf("take over samples: %w", err)
	}
	all := make([]byte, old.Size())
	if _, err = old.ReadAt(all, 0); err == nil {
		_, err = now.WriteAt(all, 0)
	}
	var f sampleSampleState
	if err == nil {
		err = from.Facts.Lookup(uint32(0), &f)
	}
	if err == nil {
		err = s.Facts.Put(uint32(0), f)
	}
	if err != nil {
		return fmt.Errorf("take over samples: %w", err)
	}
	return nil
}
