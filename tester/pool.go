// SPDX-License-Identifier: Apache-2.0

package tester

import (
	"time"

	"weir/record/hist"
)

// Pool returns the sum of two streams.
func (s Sent) Pool(other Sent) Sent {
	all := Sent{Stream: s.Stream, Frames: s.Frames + other.Frames, WireBytes: s.WireBytes + other.WireBytes,
		PayloadBytes: s.PayloadBytes + other.PayloadBytes, Late: s.Late + other.Late, Skipped: s.Skipped + other.Skipped}
	all.First, all.Last = span(s.Frames, s.First, s.Last, other.Frames, other.First, other.Last)
	return all
}

// Pool returns the sum of two streams received on one clock; loss, reordering and delay variation
// are within each stream. Both arguments stay unchanged, and the last error is omitted.
func (c Counts) Pool(other Counts) Counts {
	all := Counts{
		Stream: c.Stream, Received: c.Received + other.Received, WireBytes: c.WireBytes + other.WireBytes, PayloadBytes: c.PayloadBytes + other.PayloadBytes,
		Unique: c.Unique + other.Unique, Lost: c.Lost + other.Lost, Duplicates: c.Duplicates + other.Duplicates,
		Reordered: c.Reordered + other.Reordered, MaxExtent: max(c.MaxExtent, other.MaxExtent),
		SequenceErrors: c.SequenceErrors + other.SequenceErrors, PayloadErrors: c.PayloadErrors + other.PayloadErrors,
		HeaderErrors: c.HeaderErrors + other.HeaderErrors, OutOfWindow: c.OutOfWindow + other.OutOfWindow, Restarts: c.Restarts + other.Restarts,
		Misnumbered: c.Misnumbered + other.Misnumbered, Earlier: c.Earlier + other.Earlier,
		Delay: pooled(c.Delay, other.Delay), DelayBase: c.DelayBase, DelayBlur: max(c.DelayBlur, other.DelayBlur),
		DelaySum: c.DelaySum + other.DelaySum, DelayMin: c.DelayMin, DelayMax: max(c.DelayMax, other.DelayMax), DelayLatest: c.DelayLatest,
		NegativeDelays: c.NegativeDelays + other.NegativeDelays,
		Variation:      pooled(c.Variation, other.Variation), VariationMax: max(c.VariationMax, other.VariationMax),
		HighestSequence: max(c.HighestSequence, other.HighestSequence),
	}
	all.First, all.Last = span(c.Received, c.First, c.Last, other.Received, other.First, other.Last)
	if other.Delay.Count() > 0 && (c.Delay.Count() == 0 || other.DelayMin < c.DelayMin) {
		all.DelayMin = other.DelayMin
	}
	if other.Received > 0 && other.Last >= c.Last {
		all.DelayLatest = other.DelayLatest
	}
	return all
}

func pooled(a, b *hist.Histogram) *hist.Histogram {
	all := &hist.Histogram{}
	all.Merge(a)
	all.Merge(b)
	return all
}

// span returns the time from the first to the last frame of two streams, which may be empty.
func span(n uint64, first, last time.Duration, m uint64, otherFirst, otherLast time.Duration) (time.Duration, time.Duration) {
	switch {
	case m == 0:
		return first, last
	case n == 0:
		return otherFirst, otherLast
	}
	return min(first, otherFirst), max(last, otherLast)
}
