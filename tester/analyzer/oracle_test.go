// SPDX-License-Identifier: Apache-2.0

package analyzer

import (
	"weir/record/hist"
	"weir/tester"
)

// arrival is one frame as the oracle receives it.
type arrival struct {
	sequence uint64
	stamp    uint64
	transit  int64 // ns
	corrupt  bool
	wire     uint64
	payload  uint64
}

// oracle classifies a whole list of arrivals slowly, from the definitions, and remembers every
// arrival.
func oracle(arrivals []arrival) tester.Counts {
	c := tester.Counts{Delay: &hist.Histogram{}, Variation: &hist.Histogram{}}
	var first []uint64 // sequence numbers of first copies in the order of arrival
	seen := map[uint64]bool{}
	var transits []int64
	for _, a := range arrivals {
		c.Received++
		c.WireBytes += a.wire
		c.PayloadBytes += a.payload
		if a.corrupt {
			c.PayloadErrors++
			c.LastCorrupt = &tester.Corruption{Sequence: a.sequence}
			continue
		}
		next := uint64(0) // RFC 4737: NextExp
		for _, s := range first {
			next = max(next, s+1)
		}
		if a.sequence != next {
			c.SequenceErrors++
			c.LastError = &tester.SequenceError{Expected: next, Got: a.sequence}
		}
		if next > 0 && a.sequence/64+blocks <= (next-1)/64 {
			c.OutOfWindow++
			continue
		}
		if seen[a.sequence] {
			c.Duplicates++
			continue
		}
		if a.sequence < next {
			c.Reordered++
			for j, s := range first {
				if s > a.sequence {
					c.MaxExtent = max(c.MaxExtent, uint64(len(first)-j))
					break
				}
			}
		}
		seen[a.sequence] = true
		first = append(first, a.sequence)
		c.Unique++
		transits = append(transits, a.transit)
	}
	for s := range seen {
		c.HighestSequence = max(c.HighestSequence, s)
	}
	for s := uint64(0); s < c.HighestSequence; s++ {
		if !seen[s] {
			c.Lost++
		}
	}
	times(&c, transits)
	return c
}

func times(c *tester.Counts, transits []int64) {
	for i, transit := range transits {
		if transit < 0 {
			c.NegativeDelays++
		}
		c.Delay.Record(uint64(max(transit, 0)))
		if i > 0 {
			last := max(transits[i-1], 0)
			c.Variation.Record(uint64(max(max(transit, 0)-last, last-max(transit, 0))))
		}
		c.DelayLatest = uint64(max(transit, 0))
	}
	c.DelaySum, c.DelayMin, c.DelayMax = c.Delay.Sum(), c.Delay.Min(), c.Delay.Max()
	c.VariationMax = c.Variation.Max()
}
