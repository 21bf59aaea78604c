// SPDX-License-Identifier: Apache-2.0

package generator

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"weir/internal/fault"
	"weir/record/hist"
	"weir/tester"
	"weir/tester/frame"
)

// perCPU is the highest frame rate of one CPU; a plan above it is spread over several.
const perCPU = 1.5e6 // frame/s

// CPUs returns the CPUs available to a generator on this port.
func CPUs(port Port) []int {
	if len(port.CPUs) > 0 {
		return port.CPUs
	}
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(0, &set); err != nil {
		return nil
	}
	var cpus []int
	for cpu := range len(set) * 64 {
		if set.IsSet(cpu) {
			cpus = append(cpus, cpu)
		}
	}
	return cpus
}

// Parts returns the number of CPUs for a rate; 0 frame/s is unlimited.
func Parts(rate float64, cpus int) int {
	if rate <= 0 {
		return max(cpus, 1)
	}
	return max(min(int(math.Ceil(rate/perCPU)), cpus), 1)
}

// divide spreads a schedule's streams over the port's CPUs, each stream whole: its numbers and
// times come from one thread. Fewer than two streams, and limits of the whole schedule, cannot be
// divided.
func divide(port Port, schedule tester.Schedule, plan []frame.Planned) []tester.Schedule {
	rate, full := frame.Rate(plan)
	if full {
		rate = 0
	}
	cpus := CPUs(port)
	n := min(Parts(rate, len(cpus)), len(schedule.Streams))
	if schedule.Sequential || schedule.MaxFrames > 0 || n < 2 {
		return nil
	}
	parts := make([]tester.Schedule, n)
	load := make([]float64, n)
	for _, s := range slices.SortedFunc(slices.Values(schedule.Streams), func(a, b tester.Stream) int { return int(a.Gap - b.Gap) }) {
		least := slices.Index(load, slices.Min(load))
		if s.Gap > 0 {
			load[least] += 1 / s.Gap.Seconds()
		} else {
			load[least] += 1e9
		}
		parts[least].Streams = append(parts[least].Streams, s)
	}
	for i := range parts {
		streams := parts[i].Streams
		parts[i] = schedule
		parts[i].Streams = streams
	}
	return parts
}

// group is a schedule sent by several CPUs.
type group struct {
	port   Port
	parts  []*live
	before deviceCounts
	once   sync.Once
	result tester.Generation
	err    error
}

func startGroup(ctx context.Context, port Port, schedules []tester.Schedule) (Running, error) {
	g := &group{port: port, before: readDevice(port)}
	cpus := CPUs(port)
	for i, schedule := range schedules {
		one := port
		one.CPUs = cpus[i : i+1]
		plan, err := frame.Plan(schedule)
		if err == nil {
			l := newLive(one, schedule, plan)
			l.part = true
			g.parts = append(g.parts, l)
			err = l.open(schedule)
		}
		if err != nil {
			return nil, errors.Join(err, g.close())
		}
		port.Peer = nil // the first part's program serves all
	}
	// It must stay until the last one has ended.
	pass := g.parts[0].pass
	g.parts[len(g.parts)-1].after, g.parts[0].pass = pass, nil
	var all sync.WaitGroup
	all.Add(len(g.parts))
	for _, l := range g.parts {
		l.others = &all
		go l.run()
		go l.watch(ctx)
	}
	return g, nil
}

func (g *group) close() error {
	var all []error
	for _, l := range g.parts {
		all = append(all, l.close())
	}
	return errors.Join(all...)
}

// Stop ends all parts.
func (g *group) Stop() {
	for _, l := range g.parts {
		l.Stop()
	}
}

// Progress returns the sum of the parts.
func (g *group) Progress() tester.Generation {
	var parts []tester.Generation
	for _, l := range g.parts {
		parts = append(parts, l.Progress())
	}
	return g.sum(parts, false)
}

// Wait waits for all parts.
func (g *group) Wait() (tester.Generation, error) {
	g.once.Do(func() {
		var parts []tester.Generation
		var all []error
		for _, l := range g.parts {
			one, err := l.Wait()
			parts, all = append(parts, one), append(all, err)
		}
		g.result, g.err = g.sum(parts, true), errors.Join(all...)
		if sent := frames(g.result); g.err == nil && sent > 0 && g.result.Refused >= sent {
			g.err = allRefused(g.port, sent)
		}
	})
	return g.result, g.err
}

func (g *group) sum(parts []tester.Generation, end bool) tester.Generation {
	sum := tester.Generation{Mechanism: Live, LateAfter: parts[0].LateAfter, Lateness: &hist.Histogram{}}
	var ended []string
	for _, p := range parts {
		sum.Sent = append(sum.Sent, p.Sent...)
		sum.Lateness.Merge(p.Lateness)
		if p.Ended != "" && !slices.Contains(ended, p.Ended) {
			ended = append(ended, p.Ended)
		}
	}
	slices.SortFunc(sum.Sent, func(a, b tester.Sent) int { return int(a.Stream) - int(b.Stream) })
	sum.Ended = strings.Join(ended, ", ")
	sum.Mechanism = fmt.Sprintf("%s on %d CPUs", Live, len(parts))
	sum.Refused = readDevice(g.port).refused(g.before, frames(sum), end)
	return sum
}

func frames(g tester.Generation) (n uint64) {
	for _, s := range g.Sent {
		n += s.Frames
	}
	return n
}

func allRefused(port Port, sent uint64) error {
	return fault.New(fault.Testbed, "set the peer of "+port.Device+" up and attach an analyzer or switch GRO on there",
		"send from %s: the device refused all of %d frames: its peer is not listening", port.Device, sent)
}
