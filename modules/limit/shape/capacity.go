// SPDX-License-Identifier: Apache-2.0

package shape

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"weir/core/match"
	"weir/kernel/bpffs"
)

// perShaper are the maps with an entry for each line. Counters take one for each processor too, so
// that room for all lines that there can be would be 47 MB on 128 processors.
var perShaper = []string{shapeMapDelayConfigs, shapeMapDelayStates, shapeMapDelayCounts, shapeMapDelayReceivers}

// lines are how many there are while some take the place of those in force.
func (p *programs) shaperCount(want []Line) (int, error) {
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

// ensureCapacity is these programs, or others with larger maps in their place: those that are at devices
// go on until they are replaced there. What is counted while the maps are copied is lost.
func (h Host) ensureCapacity(p *programs, want []Line) (*programs, error) {
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
		err = h.swapPins(larger)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("make room for %d limits by delay: %w", lines, err), larger.close())
	}
	return larger, nil
}

// exchange pins programs in the place of those that are pinned, at once: after a crash the ones or
// the others are there.
func (h Host) swapPins(larger *programs) error {
	next := h.loaded() + "-next"
	if err := removeAll(next); err != nil { // of one that was killed
		return err
	}
	if err := larger.pin(next); err != nil {
		return err
	}
	if err := unix.Renameat2(unix.AT_FDCWD, next, unix.AT_FDCWD, h.loaded(), unix.RENAME_EXCHANGE); err != nil {
		return bpffs.Fault(fmt.Errorf("pin: %w", err))
	}
	return removeAll(next)
}

// loaded is the folder of the programs and maps alone.
func (h Host) loaded() string { return filepath.Join(h.Pins, "loaded") }

func removeAll(dir string) error {
	if err := os.RemoveAll(dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return bpffs.Fault(fmt.Errorf("unpin: %w", err))
	}
	return nil
}
