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

// perLine are the maps with an entry for each line. Counters take one for each processor too, so
// that room for all lines that there can be would be 47 MB on 128 processors.
var perLine = []string{delayMapDelayConfigs, delayMapDelayStates, delayMapDelayCounts, delayMapDelayReceivers}

// lines are how many there are while some take the place of those in force.
func (p *programs) lines(want []Line) (int, error) {
	all := map[uint32]bool{}
	var key uint32
	var c delayDelayConfig
	each := p.maps.DelayConfigs.Iterate()
	for each.Next(&key, &c) {
		all[key] = true
	}
	fresh := 0
	for _, l := range want {
		switch {
		case l.Key() != 0:
			all[l.Key()] = true
		case p.maps.DelayReceivers.Lookup(uint32(l.Index), &key) == nil: // of its ifb
			all[key] = true
		default:
			fresh++
		}
	}
	if err := each.Err(); err != nil {
		return 0, fmt.Errorf("read limits by delay: %w", err)
	}
	return len(all) + fresh, nil
}

// withRoom is these programs, or others with larger maps in their place: those that are at devices
// go on until they are replaced there. What is counted while the maps are copied is lost.
func (h Host) withRoom(p *programs, want []Line) (*programs, error) {
	lines, err := p.lines(want)
	if err == nil && lines <= int(p.maps.DelayConfigs.MaxEntries()) {
		return p, nil
	}
	defer func() { _ = p.close() }()
	if err != nil {
		return nil, err
	}
	before := match.Fields(&p.maps)
	shared := map[string]*ebpf.Map{}
	for _, name := range []string{delayMapDelayFlows, delayMapDelayNotices, delayMapDelayCurrent, delayMapDelaySockets} {
		shared[name] = *before[name]
	}
	larger, err := loadWith(lines, shared)
	if err != nil {
		return nil, err
	}
	for name, to := range match.Fields(&larger.maps) {
		switch {
		case err != nil || shared[name] != nil:
		case name == delayMapDelayCounts:
			err = bpffs.CopyEach[delayDelayCounters](*before[name], *to)
		default:
			err = bpffs.Copy(*before[name], *to)
		}
	}
	if err == nil {
		err = bpffs.Exchange(h.loaded(), larger.pin)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("make room for %d limits by delay: %w", lines, err), larger.close())
	}
	return larger, nil
}

// loaded is the folder of the programs and maps alone.
func (h Host) loaded() string { return filepath.Join(h.Pins, "loaded") }
