// SPDX-License-Identifier: Apache-2.0

package xdp

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/cilium/ebpf"

	"weir/kernel/bpfmap"
	"weir/modules/offload/plan"
)

// Count counts packets and the bytes of their received frames.
type Count struct{ Packets, Octets uint64 }

func (c *Count) add(all []fastFastCount) {
	sum := bpfmap.Total(all)
	c.Packets += sum.Packets
	c.Octets += sum.Octets
}

// Counts holds the counters of the programs.
type Counts struct {
	Forwarded Count
	Left      [fastFastReasonFAST_REASONS]Count // to the CPU
}

// Reasons names the reasons for leaving packets to the CPU, in the order of Counts.Left.
var Reasons = [fastFastReasonFAST_REASONS]string{"other", "expired", "header", "ttl", "source", "route", "mtu", "same_link", "checksum"}

// Counts reads the counters.
func (t *Table) Counts() (Counts, error) {
	return readCounts(t.objects.FastForwarded, t.objects.FastLeft)
}

func readCounts(forwarded, left *ebpf.Map) (c Counts, err error) {
	var key uint32
	var each []fastFastCount
	for all := forwarded.Iterate(); all.Next(&key, &each); {
		c.Forwarded.add(each)
	}
	for i := range 2 * len(c.Left) {
		if err := left.Lookup(uint32(i), &each); err != nil {
			return c, fmt.Errorf("read counters: %w", err)
		}
		c.Left[i%len(c.Left)].add(each)
	}
	return c, nil
}

// inherit adds the counters of replaced tables, in entries that no program increments.
func (t *Table) inherit(folder string, names []string) error {
	var sum Counts
	for _, name := range names {
		if err := t.Samples().InheritPinned(filepath.Join(folder, name)); err != nil {
			return err
		}
		before, err := countsIn(filepath.Join(folder, name))
		if errors.Is(err, fs.ErrNotExist) {
			continue // a crash during pinning
		}
		if err != nil {
			return err
		}
		sum.Forwarded.add([]fastFastCount{{Packets: before.Forwarded.Packets, Octets: before.Forwarded.Octets}})
		for i, c := range before.Left {
			sum.Left[i].add([]fastFastCount{{Packets: c.Packets, Octets: c.Octets}})
		}
	}
	put := func(m *ebpf.Map, key uint32, c Count) error {
		each := make([]fastFastCount, ebpf.MustPossibleCPU())
		each[0] = fastFastCount{Packets: c.Packets, Octets: c.Octets}
		if err := m.Put(key, each); err != nil {
			return fmt.Errorf("count on: %w", err)
		}
		return nil
	}
	err := put(t.objects.FastForwarded, 0, sum.Forwarded)
	for i, c := range sum.Left {
		err = errors.Join(err, put(t.objects.FastLeft, uint32(len(sum.Left)+i), c))
	}
	return err
}

// countsIn reads the counters pinned in a folder.
func countsIn(folder string) (c Counts, err error) {
	var maps [2]*ebpf.Map
	for i, name := range []string{"forwarded", "left"} {
		if maps[i], err = ebpf.LoadPinnedMap(filepath.Join(folder, name), nil); err != nil {
			return c, fmt.Errorf("read counters: %w", err)
		}
		defer func() { _ = maps[i].Close() }()
	}
	return readCounts(maps[0], maps[1])
}

// Of returns the forwarded packets of a decision.
func (t *Table) Of(d plan.Decision) (c Count, err error) {
	var each []fastFastCount
	if err := t.objects.FastForwarded.Lookup(uint32(d), &each); err != nil {
		return c, fmt.Errorf("read counters of a decision: %w", err)
	}
	c.add(each)
	return c, nil
}

// Blocks returns the map of the tree, for benchmarks of lookups.
func (t *Table) Blocks() *ebpf.Map { return t.objects.FastBlocks }
