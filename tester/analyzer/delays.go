// SPDX-License-Identifier: Apache-2.0

package analyzer

import (
	"math"

	"weir/record/hist"
	"weir/tester"
)

// early is ANALYZER_EARLY.
const early = 16

// delays fills in a stream's delays. With two clocks they count from the smallest delay:
// the histogram lies on both sides of a base close to the smallest delay,
//
//	smallest          base
//	   |-- below[] ----|---- delay[] ------------>
//
// and is shifted here, so that zero is the smallest delay. Delays above the base keep their
// relative precision.
func delays(to *tester.Counts, c *analyzerStreamCounts, times *timeCounts, relative bool) (err error) {
	if c.Timed == 0 {
		return nil
	}
	if relative {
		to.DelayBase = c.DelayMin
	}
	to.DelaySum = c.DelaySum - uint64(to.DelayBase)*c.Timed // modulo 2^64
	to.DelayMin, to.DelayMax = uint64(c.DelayMin-to.DelayBase), uint64(c.DelayMax-to.DelayBase)
	to.DelayLatest = uint64(max(c.Transit-to.DelayBase, 0))
	if !relative {
		to.Delay, err = hist.FromCounts(times.delay[:], to.DelayMin, to.DelayMax, to.DelaySum)
		return err
	}
	moved := make([]uint64, hist.Buckets)
	up := c.Base - c.DelayMin // the base as a delay
	put := func(value int64, n uint64) {
		moved[hist.Index(min(uint64(max(value, 0)), to.DelayMax))] += n
	}
	for _, transit := range c.Early[:min(c.Timed, early)] {
		put(transit-c.DelayMin, 1)
	}
	for i := range buckets {
		low, high := hist.Bounds(i)
		middle := int64(min(low+(high-low)/2, math.MaxInt64))
		put(up+middle, times.delay[i])
		put(up-middle, times.below[i])
	}
	to.DelayBlur = uint64(up) >> hist.SubBits
	to.Delay, err = hist.FromCounts(moved, to.DelayMin, to.DelayMax, to.DelaySum)
	return err
}
