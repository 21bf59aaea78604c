// SPDX-License-Identifier: Apache-2.0

package analyzer

import (
	"encoding/binary"
	"fmt"
	"time"
	"unsafe"

	"github.com/cilium/ebpf"

	"weir/kernel/bpfmap"
	"weir/record/hist"
	"weir/tester"
)

// Snapshot returns the counts so far, streams in the order of their identifiers. While frames
// arrive, the counters of a stream may be a frame apart; after the last frame they are exact.
func (a *Analyzer) Snapshot() (tester.Analysis, error) {
	var analysis tester.Analysis
	port, err := bpfmap.Sum[analyzerPortCounts](a.objects.Port, uint32(0))
	if err != nil {
		return analysis, fmt.Errorf("read port counters: %w", err)
	}
	analysis.Foreign, analysis.ForeignBytes = port.Foreign, port.ForeignBytes
	analysis.Unknown, analysis.Uncaptured = port.Unknown, port.Uncaptured
	if len(a.streams) == 0 {
		return analysis, nil
	}
	counts, err := entries[analyzerStreamCounts](a.objects.Streams, len(a.streams))
	if err != nil {
		return analysis, fmt.Errorf("read stream counters: %w", err)
	}
	for slot, id := range a.streams {
		var times timeCounts
		if counts[slot].Received > 0 {
			if err := a.readTimes(slot, &times); err != nil {
				return analysis, fmt.Errorf("read delays of stream %d: %w", id, err)
			}
		}
		one, err := account(id, &counts[slot], &times, a.relative)
		if err != nil {
			return analysis, err
		}
		analysis.Streams = append(analysis.Streams, one)
	}
	return analysis, nil
}

// buckets is ANALYZER_BUCKETS.
const buckets = 1024

// timeCounts are one stream's histograms, by bucket.
type timeCounts struct {
	delay, variation, below [buckets]uint64
}

// readTimes collects a stream's buckets from the mapped memory, which is ordered by bucket first.
func (a *Analyzer) readTimes(slot int, into *timeCounts) error {
	const size = int64(unsafe.Sizeof(analyzerTimeBucket{}))
	var octets [size]byte
	for i := range buckets {
		if _, err := a.times.ReadAt(octets[:], (int64(i*len(a.streams))+int64(slot))*size); err != nil {
			return err
		}
		into.delay[i] = binary.LittleEndian.Uint64(octets[:])
		into.variation[i] = binary.LittleEndian.Uint64(octets[8:])
		into.below[i] = binary.LittleEndian.Uint64(octets[16:])
	}
	return nil
}

// entries reads the first n values of an array map in few system calls.
func entries[T any](m *ebpf.Map, n int) ([]T, error) {
	values := make([]T, n)
	keys := make([]uint32, n)
	var cursor ebpf.MapBatchCursor
	read := 0
	for read < n {
		got, err := m.BatchLookup(&cursor, keys[read:], values[read:], nil)
		read += got
		if err != nil && read < n {
			return nil, err
		}
	}
	return values, nil
}

func account(id uint16, c *analyzerStreamCounts, times *timeCounts, relative bool) (tester.Counts, error) {
	counts := tester.Counts{
		Stream: id, Received: c.Received, WireBytes: c.WireBytes, PayloadBytes: c.PayloadBytes,
		Unique: c.Unique, Duplicates: c.Duplicates, Reordered: c.Reordered, MaxExtent: c.MaxExtent,
		SequenceErrors: c.SequenceErrors, PayloadErrors: c.PayloadErrors, HeaderErrors: c.HeaderErrors, OutOfWindow: c.OutOfWindow,
		Restarts: c.Restarts, Misnumbered: c.Misnumbered, Earlier: c.Earlier, NegativeDelays: c.NegativeDelays,
		VariationMax: c.VariationMax, First: time.Duration(c.First), Last: time.Duration(c.Last),
		Delay: &hist.Histogram{}, Variation: &hist.Histogram{},
	}
	if c.Received == 0 {
		return counts, nil
	}
	counts.Lost = c.EarlierLost
	if unique := c.Unique - c.Earlier; c.Next > unique {
		counts.Lost += c.Next - unique
	}
	if c.Next > 0 {
		counts.HighestSequence = c.Next - 1
	}
	if c.SequenceErrors > 0 {
		counts.LastError = &tester.SequenceError{Expected: c.ErrorExpected, Got: c.ErrorGot, At: time.Duration(c.ErrorAt)}
	}
	if c.PayloadErrors+c.HeaderErrors > 0 {
		counts.LastCorrupt = &tester.Corruption{Sequence: c.CorruptGot, At: time.Duration(c.CorruptAt)}
	}
	if err := delays(&counts, c, times, relative); err != nil {
		return counts, fmt.Errorf("read delays of stream %d: %w", id, err)
	}
	var err error
	if counts.Variation, err = hist.FromCounts(times.variation[:], c.VariationMin, c.VariationMax, c.VariationSum); err != nil {
		return counts, fmt.Errorf("read delay variations of stream %d: %w", id, err)
	}
	return counts, nil
}
