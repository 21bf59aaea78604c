// SPDX-License-Identifier: Apache-2.0

package police

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"unsafe"

	"github.com/cilium/ebpf"

	"weir/kernel/bpfmap"
)

// Counters are the totals of one direction of a scope since it was loaded: those of struct
// limit_counters in limit.h (Queue counts packets by virtual queue: [2^i, 2^(i+1)) µs in entry i,
// below 2 µs in entry 0), and round-trip times.
type Counters struct {
	limitLimitCounters
	// RTT counts the RTT samples of the scope's TCP senders in the buckets of Queue. The samples of
	// a connection count in both directions; a connection that only receives has samples of its
	// handshake only. RTTSum is their sum in µs.
	RTT    [limitLimitFormatLIMIT_QUEUE_BUCKETS]uint64
	RTTSum uint64
}

// Counters sums the counters of a scope over all CPUs.
func (p *DataPlane) Counters(scope int, direction Direction) (Counters, error) {
	if err := p.known(scope); err != nil {
		return Counters{}, err
	}
	index := uint32(2*scope) + uint32(direction)
	counts, err := bpfmap.Sum[limitLimitCounters](p.objects.LimitCounts, index)
	if err != nil {
		return Counters{}, fmt.Errorf("read counters of scope %d: %w", scope, err)
	}
	rtt, err := bpfmap.Sum[limitLimitRtt](p.objects.LimitRtts, uint32(scope))
	if err != nil {
		return Counters{}, fmt.Errorf("read round-trip times of scope %d: %w", scope, err)
	}
	return Counters{counts, rtt.Count, rtt.SumUs}, nil
}

// Forget resets a scope number without a scope: counters, queue and fair rate.
func (p *DataPlane) Forget(scope int) error {
	if err := p.known(scope); err != nil {
		return err
	}
	err := bpfmap.Clear[limitLimitRtt](p.objects.LimitRtts, uint32(scope))
	for _, d := range Directions {
		index := uint32(2*scope) + uint32(d)
		err = errors.Join(err, bpfmap.Clear[limitLimitCounters](p.objects.LimitCounts, index),
			p.objects.LimitStates.Put(index, &limitLimitState{}), p.objects.LimitShares.Put(index, &limitLimitFairShare{}))
	}
	if err != nil {
		return fmt.Errorf("forget scope %d: %w", scope, err)
	}
	return nil
}

// Since returns the difference to an earlier reading.
func (c Counters) Since(before Counters) Counters {
	subtract(bpfmap.Words(&c.limitLimitCounters), bpfmap.Words(&before.limitLimitCounters))
	subtract(c.RTT[:], before.RTT[:])
	c.RTTSum -= before.RTTSum
	return c
}

func subtract(from, counts []uint64) {
	for i, n := range counts {
		from[i] -= n
	}
}

// MarshalJSON writes each counter under its name in limit.h, and rtt and rtt_sum_us.
func (c Counters) MarshalJSON() ([]byte, error) {
	out := map[string]any{"rtt": c.RTT, "rtt_sum_us": c.RTTSum}
	counts := reflect.ValueOf(c.limitLimitCounters)
	for field, value := range counts.Fields() {
		if field.IsExported() {
			out[strings.ToLower(field.Name)] = value.Interface()
		}
	}
	return json.Marshal(out)
}

// Percentile returns the upper bound of the bucket that contains the quantile p (0 to 1) in µs, at
// most twice the true value; 0 without counts.
func Percentile(counts [limitLimitFormatLIMIT_QUEUE_BUCKETS]uint64, p float64) float64 {
	total := uint64(0)
	for _, n := range counts {
		total += n
	}
	if total == 0 {
		return 0
	}
	reached := uint64(0)
	for i, n := range counts {
		if reached += n; float64(reached) >= p*float64(total) {
			return float64(uint64(2) << i)
		}
	}
	return float64(uint64(2) << (len(counts) - 1))
}

// CountsID returns the id of the map of counters. Another process can read it while this one lives.
func (p *DataPlane) CountsID() (ebpf.MapID, error) {
	info, err := p.objects.LimitCounts.Info()
	if err != nil {
		return 0, fmt.Errorf("query counters: %w", err)
	}
	id, _ := info.ID()
	return id, nil
}

// ReadCounts reads the counters of a data plane of another process, without round-trip times.
func ReadCounts(id ebpf.MapID, scope int, direction Direction) (c Counters, err error) {
	counts, err := ebpf.NewMapFromID(id)
	if err != nil {
		return c, programNeeds.Fault("open counters", err)
	}
	defer func() { _ = counts.Close() }()
	if counts.ValueSize() != uint32(unsafe.Sizeof(limitLimitCounters{})) {
		return c, fmt.Errorf("open counters: %w", ErrOtherVersion)
	}
	if c.limitLimitCounters, err = bpfmap.Sum[limitLimitCounters](counts, uint32(2*scope)+uint32(direction)); err != nil {
		return c, fmt.Errorf("read counters of scope %d: %w", scope, err)
	}
	return c, nil
}
