// SPDX-License-Identifier: Apache-2.0

package ioam

import "fmt"

// scopeCounts sums the per-CPU counters of a scope.
func (d *dataPlane) scopeCounts(index uint32) (sum ioamIoamScopeCounts, err error) {
	var all []ioamIoamScopeCounts
	if err := d.objects.IoamScopeCounted.Lookup(index, &all); err != nil {
		return sum, fmt.Errorf("read scope's counters: %w", err)
	}
	for _, c := range all {
		sum.Packets += c.Packets
		sum.Octets += c.Octets
		sum.Encapsulated += c.Encapsulated
		sum.TooLong += c.TooLong
		sum.NoRoom += c.NoRoom
		sum.Failed += c.Failed
		sum.Limited += c.Limited
		sum.Turn += c.Turn
	}
	return sum, nil
}

// nodeCounts sums the node's per-CPU counters.
func (d *dataPlane) nodeCounts() (sums [ioamIoamCountIOAM_COUNTS]uint64, err error) {
	var all []uint64
	for i := range sums {
		if err := d.objects.IoamCounted.Lookup(uint32(i), &all); err != nil {
			return sums, fmt.Errorf("read node's counters: %w", err)
		}
		for _, n := range all {
			sums[i] += n
		}
	}
	return sums, nil
}
