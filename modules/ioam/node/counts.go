// SPDX-License-Identifier: Apache-2.0

package node

import (
	"fmt"

	"weir/kernel/bpfmap"
)

// scopeCounts sums the per-CPU counters of a scope.
func (d *dataPlane) scopeCounts(index uint32) (sum ioamIoamScopeCounts, err error) {
	if sum, err = bpfmap.Sum[ioamIoamScopeCounts](d.objects.IoamScopeCounted, index); err != nil {
		return sum, fmt.Errorf("read scope's counters: %w", err)
	}
	return sum, nil
}

// nodeCounts sums the node's per-CPU counters.
func (d *dataPlane) nodeCounts() (sums [ioamIoamCountIOAM_COUNTS]uint64, err error) {
	for i := range sums {
		if sums[i], err = bpfmap.Sum[uint64](d.objects.IoamCounted, uint32(i)); err != nil {
			return sums, fmt.Errorf("read node's counters: %w", err)
		}
	}
	return sums, nil
}
