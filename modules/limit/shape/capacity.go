// SPDX-License-Identifier: Apache-2.0

package shape

import (
	"errors"
	"fmt"
	"path/filepath"

	"github.com/cilium/ebpf"

	"weir/core/match"
	"weir/kernel/bpffs"
)

// perShaper lists the maps with one entry per shaper. Counters are per CPU: MaxShapers entries on
// 128 CPUs would take 47 MB.
var perShaper = []string{shapeMapDelayConfigs, shapeMapDelayStates, shapeMapDelayCounts, shapeMapDelayReceivers}

// shaperCount returns the number of map entries needed while want replaces the active shapers.
func (p *programs) shaperCount(want []Shaper) (int, error) {
	all := map[uint32]bool{}
	var key uint32
	var c shapeShaperConfig
	each := p.maps.DelayConfigs.Iterate()
	for each.Next(&key, &c) {
		all[key] = true
	}
	fresh := 0
	for _, l := range want {
		switch {
		case l.Key() != 0:
			all[l.Key()] = true
		case p.maps.DelayReceivers.Lookup(uint32(l.Index), &key) == nil: // key of its ifb
			all[key] = true
		default:
			fresh++
		}
	}
	if err := each.Err(); err != nil {
		return 0, fmt.Errorf("read shapers: %w", err)
	}
	return len(all) + fresh, nil
}

// ensureCapacity returns p, or a copy with larger maps. Attached programs keep the old maps until
// they are replaced; packets counted during the copy are lost.
func (h Host) ensureCapacity(p *programs, want []Shaper) (*programs, error) {
	lines, err := p.shaperCount(want)
	if err == nil && lines <= int(p.maps.DelayConfigs.MaxEntries()) {
		return p, nil
	}
	defer func() { _ = p.close() }()
	if err != nil {
		return nil, err
	}
	before := match.Fields(&p.maps)
	shared := map[string]*ebpf.Map{}
	for _, name := range []string{shapeMapDelayFlows, shapeMapDelayNotices, shapeMapDelayCurrent, shapeMapDelaySockets} {
		shared[name] = *before[name]
	}
	larger, err := loadWith(lines, shared)
	if err != nil {
		return nil, err
	}
	for name, to := range match.Fields(&larger.maps) {
		switch {
		case err != nil || shared[name] != nil:
		case name == shapeMapDelayCounts:
			err = bpffs.CopyEach[shapeShaperCounters](*before[name], *to)
		default:
			err = bpffs.Copy(*before[name], *to)
		}
	}
	if err == nil {
		err = bpffs.Swap(h.loaded(), larger.pin)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("make room for %d shapers: %w", lines, err), larger.close())
	}
	return larger, nil
}

// loaded returns the folder that contains only the programs and maps.
func (h Host) loaded() string { return filepath.Join(h.Pins, "loaded") }
