// SPDX-License-Identifier: Apache-2.0

package fidelity

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"weir/kernel/netns"
	"weir/lab/link"
	"weir/record/hist"
)

// Watch observes one run, from NewWatch to Finish. It reads counters at both ends of the run and
// costs nothing between. It is safe for concurrent use.
type Watch struct {
	carrying link.Carrying
	ends     []Endpoint
	limits   Limits
	mu       sync.Mutex // guards before
	before   reading
}

// reading is everything a watch compares.
type reading struct {
	drops    []uint64 // by endpoint
	status   []link.Status
	overruns uint64
	lateness *hist.Histogram
	stalls   []*hist.Histogram // by direction
	at       time.Time
	cpus     []cpuTime
}

// NewWatch starts watching: the carrier, which may be nil, and the hosts' ends of the links.
func NewWatch(carrying link.Carrying, ends []Endpoint, limits Limits) (*Watch, error) {
	w := &Watch{carrying: carrying, ends: ends, limits: limits}
	before, err := w.read()
	if err != nil {
		return nil, fmt.Errorf("watch the testbed: %w", err)
	}
	w.before = before
	return w, nil
}

func (w *Watch) read() (reading, error) {
	now := reading{lateness: &hist.Histogram{}, at: time.Now()}
	var err error
	if now.drops, err = readDrops(w.ends); err != nil {
		return reading{}, err
	}
	if w.carrying != nil {
		status, err := w.carrying.Status()
		if err != nil {
			return reading{}, err
		}
		now.status = status
		for _, s := range status {
			for _, c := range []link.Counters{s.Forward, s.Reverse} {
				now.overruns += c.Overruns
				now.lateness.Merge(c.Lateness)
				now.stalls = append(now.stalls, c.Stalls)
			}
		}
	}
	now.cpus, err = readCPUs()
	return now, err
}

// readDrops reads the frames lost at the ends, each namespace once. Drops by an XDP program of a
// host, such as an analyzer, do not count.
func readDrops(ends []Endpoint) ([]uint64, error) {
	at := map[*netns.Namespace][]int{}
	for i, end := range ends {
		at[end.Namespace] = append(at[end.Namespace], i)
	}
	lost := make([]uint64, len(ends))
	for ns, indexes := range at {
		devices := make([]string, len(indexes))
		for n, i := range indexes {
			devices[n] = ends[i].Device
		}
		all, err := link.ReadAllDrops(ns, devices)
		if err != nil {
			return nil, err
		}
		for n, i := range indexes {
			lost[i] = all[n].Receive + all[n].Transmit
		}
	}
	return lost, nil
}

// Settled marks the end of the settle time: earlier late frames do not count against the run, but
// losses do.
func (w *Watch) Settled() error {
	now, err := w.read()
	if err != nil {
		return fmt.Errorf("watch the testbed: %w", err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.before.lateness, w.before.stalls, w.before.at = now.lateness, now.stalls, now.at
	return nil
}

// Finish ends the watch and returns the judgement. The error concerns the counters, not the run.
func (w *Watch) Finish() (Judgement, error) {
	after, err := w.read()
	if err != nil {
		return Judgement{}, fmt.Errorf("watch the testbed: %w", err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	var j Judgement
	for i, end := range w.ends {
		if lost := after.drops[i] - w.before.drops[i]; lost > 0 {
			j.Drops += lost
			j.reject("device %s lost %d frames without a loss model", end.Device, lost)
		}
	}
	w.judgeCarrier(&j, after)
	w.judgeCPU(&j, after.cpus)
	j.Valid = len(j.Reasons) == 0
	return j, nil
}

func (j *Judgement) reject(format string, args ...any) {
	j.Reasons = append(j.Reasons, fmt.Sprintf(format, args...))
}

func (w *Watch) judgeCarrier(j *Judgement, after reading) {
	if j.Overruns = after.overruns - w.before.overruns; j.Overruns > 0 {
		j.reject("the %s lost %d frames: it was overloaded", w.carrying.Mechanism(), j.Overruns)
	}
	w.judgeStalls(j, after)
	lateness := difference(after.lateness, w.before.lateness)
	if lateness.Count() == 0 {
		return
	}
	j.LatenessP50 = time.Duration(lateness.Quantile(0.5))
	j.LatenessP99 = time.Duration(lateness.Quantile(0.99))
	if j.LatenessP50 > w.limits.LatenessP50 {
		j.reject("half of the frames were sent more than %s late; %s are tolerated", round(j.LatenessP50), w.limits.LatenessP50)
	}
	if j.LatenessP99 > w.limits.LatenessP99 {
		j.reject("1 %% of the frames were sent more than %s late; %s are tolerated", round(j.LatenessP99), w.limits.LatenessP99)
	}
}

// judgeStalls judges by time: a carrier that stalled while few frames arrived is late for few of
// them.
func (w *Watch) judgeStalls(j *Judgement, after reading) {
	span := after.at.Sub(w.before.at)
	for i := range min(len(after.stalls), len(w.before.stalls)) {
		if after.stalls[i] == nil || w.before.stalls[i] == nil {
			continue
		}
		stalls := difference(after.stalls[i], w.before.stalls[i])
		if stalls.Count() > 0 {
			j.Stall = max(j.Stall, time.Duration(stalls.Quantile(1)))
			j.Behind = max(j.Behind, longer(stalls, w.limits.LatenessP99))
		}
	}
	switch {
	case j.Stall > w.limits.Stall:
		j.reject("the %s stalled for %s while frames waited; %s are tolerated", w.carrying.Mechanism(), round(j.Stall), w.limits.Stall)
	case j.Behind > time.Duration(w.limits.Behind*float64(span)):
		j.reject("the %s stalled for %s of %s while frames waited, longer than %s at a time; %.1f %% are tolerated",
			w.carrying.Mechanism(), round(j.Behind), round(span), w.limits.LatenessP99, 100*w.limits.Behind)
	}
}

// longer adds up the spans above a length.
func longer(spans *hist.Histogram, than time.Duration) (sum time.Duration) {
	for i, n := range spans.All() {
		low, high := hist.Bounds(i)
		if middle := time.Duration(low/2 + high/2); middle > than {
			sum += time.Duration(n) * middle
		}
	}
	return sum
}

func round(d time.Duration) time.Duration { return d.Round(time.Microsecond) }

func (w *Watch) judgeCPU(j *Judgement, after []cpuTime) {
	j.Busy, j.Steal = utilization(w.before.cpus, after)
	if len(j.Busy) > 0 && slices.Min(j.Busy) > w.limits.Busy {
		j.reject("every CPU was busy for more than %.0f %% of the run", 100*w.limits.Busy)
	}
	if j.Steal > w.limits.Steal {
		j.reject("other virtual machines took %.1f %% of the CPU time; %.0f %% are tolerated", 100*j.Steal, 100*w.limits.Steal)
	}
}

// difference returns the values recorded in after and not in before.
func difference(after, before *hist.Histogram) *hist.Histogram {
	counts := make([]uint64, hist.Buckets)
	for i, n := range after.All() {
		counts[i] += n
	}
	for i, n := range before.All() {
		counts[i] -= n
	}
	left, err := hist.FromCounts(counts, after.Min(), after.Max(), after.Sum()-before.Sum())
	if err != nil {
		return &hist.Histogram{}
	}
	return left
}
