// SPDX-License-Identifier: Apache-2.0

// Package witness verifies that the experiment alone caused a run's figures.
//
// It compares four things, and reports each mismatch:
//
//   - The configuration of every namespace is unchanged: it is compared before and after, and with
//     the kernel's change notifications, so that a reverted change is found too (package netstate).
//   - Frames and bytes are conserved. A frame that a host's TCP, UDP or ICMP sent left its device
//     and reached the link. There it was dropped on purpose, or it left the link and arrived at
//     the other device and its IP. The counters exist in any kernel and are read when all links
//     are empty, so they are compared without tolerance.
//   - Hosts opened the connections and sent the datagrams of the run's flows and no others; no flow
//     exceeded its path's rate; none stopped without a cause.
//   - The measuring process was scheduled all the time, and the machine's clocks agree.
//
// A [Witness] works between Open and Close. Start begins the judged interval, Finish ends it.
package witness

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"weir/kernel/netns"
	"weir/lab/link"
)

// Testbed is the observed testbed.
type Testbed struct {
	Places   []Place
	Carrier  *netns.Namespace // where emulated links meet; nil without any
	Links    []Link
	Carrying link.Carrying // nil without emulated links
	// Limited reports that bandwidth limits drop packets inside the hosts.
	Limited bool
	// Busy reports a benchmark that occupies all CPUs and checks that itself.
	Busy bool
}

// Place is a host or a router.
type Place struct {
	Name      string
	Namespace *netns.Namespace
	// Tested reports a frame tester that bypasses IP at the devices and configures them.
	Tested bool
	// Programs reads the counters of programs at the place's devices; nil without programs.
	Programs func() (Programs, error)
	// Narrow reports that IP rejects some packets as too large, because they grow here.
	Narrow bool
	// Shortens reports that the programs shorten incoming packets.
	Shortens bool
}

// Programs counts packets of programs between a place's IP and its devices' counters.
type Programs struct {
	Dropped uint64
	Made    uint64 // and handed to its IP
}

// Link joins two places. Emulated ones are in the order of the carrier's Status.
type Link struct {
	Name             string
	Emulated         bool
	A, B             End
	Forward, Reverse link.Direction // of A to B and back
	// Classes reports queues for classes at its ends; one of the queues may starve.
	Classes bool
}

// End is a link's device in a place.
type End struct {
	Place, Device string
}

// Witness observes one run. Only Settled may be called concurrently.
type Witness struct {
	bed      Testbed
	configs  []configuration // of each place, then of the carrier's namespace
	before   reading
	fewest   map[End]int64 // of underWay, by where the frames go
	pulse    *pulse
	around   *surroundings
	problems []string // found before Start
}

// Open records the configuration of the testbed and starts to watch it.
func Open(bed Testbed) (*Witness, error) {
	w := &Witness{bed: bed}
	if err := w.openConfigurations(); err != nil {
		w.Close()
		return nil, err
	}
	if bed.Carrying != nil {
		if _, err := w.underWay(); err != nil { // baseline of frames in flight
			w.Close()
			return nil, err
		}
	}
	return w, nil
}

// Close ends the watch. It may be called on nil, and twice.
func (w *Witness) Close() {
	if w == nil {
		return
	}
	for i := range w.configs {
		w.configs[i].close()
	}
	w.configs = nil
	w.pulse.end()
}

// Start waits until the links are empty and begins the judged interval.
func (w *Witness) Start(ctx context.Context) error {
	if _, err := w.Drain(ctx); err != nil {
		return err
	}
	if w.bed.Carrying != nil {
		if err := w.bed.Carrying.Begin(); err != nil {
			return fmt.Errorf("begin the span that is judged: %w", err)
		}
	}
	before, err := w.read()
	if err != nil {
		return err
	}
	w.before = before
	for _, place := range w.bed.Places {
		if open := before.places[place.Name].protocols["Tcp.CurrEstab"]; open > 0 {
			w.problems = append(w.problems, fmt.Sprintf("%s had %d open TCP connections before any flow began", place.Name, open))
		}
	}
	if w.around, err = lookAround(); err != nil {
		return err
	}
	w.pulse = newPulse()
	return nil
}

// Settled begins the part of the interval in which the measuring process must be scheduled all the
// time.
func (w *Witness) Settled() { w.pulse.settled() }

// Report is the result of a witness.
type Report struct {
	Reasons       []string // why the run is not valid
	Links         []Balance
	Configuration string // digest of all namespaces' configuration
	Settings      int    // number of settings
	Namespaces    int
	Frames        uint64        // that hosts sent
	Pause         time.Duration // longest pause of the measuring process
	Drained       bool
}

// Finish ends the interval and judges it. The error reports a failed reading, not a bad run.
func (w *Witness) Finish(ctx context.Context, flows []Flow) (Report, error) {
	report := Report{Reasons: slices.Clone(w.problems)}
	pause, late := w.pulse.end()
	report.Pause = pause
	if !w.bed.Busy {
		report.Reasons = append(report.Reasons, late...)
	}
	changes, err := w.changes(&report)
	if err != nil {
		return report, err
	}
	outside, err := w.around.changes()
	if err != nil {
		return report, err
	}
	changes = append(outside, changes...)
	report.Drained, err = w.Drain(ctx)
	var after reading
	if err == nil {
		after, err = w.read()
	}
	if err != nil && len(changes) > 0 && ctx.Err() == nil && !errors.Is(err, link.ErrBroken) {
		report.Reasons = slices.Concat(changes, report.Reasons, []string{err.Error()}) // a change explains unreadable counters
		return report, nil
	}
	if err != nil {
		return report, err
	}
	balance := w.balance(after, flows)
	report.Links, report.Frames = balance.links, balance.frames
	report.Reasons = slices.Concat(changes, report.Reasons, balance.reasons, judgeFlows(w.bed, flows, balance.links))
	if !report.Drained {
		report.Reasons = append(report.Reasons, "frames were still inside the links long after the last flow had ended")
	}
	return report, nil
}
