// SPDX-License-Identifier: Apache-2.0

// Package fidelity decides whether a testbed's figures are valid.
//
// [Calibrate] sends probe frames over a link before any traffic and compares rate, delay and loss
// with the request. A [Watch] observes a run: frames lost by veth devices or the carrier, lateness
// of the emulator, and CPU load. [Capacity] finds the highest rate that this machine carries. A run
// that fails here is invalid: it is repeated or reported as invalid, and never enters a mean.
//
// Tolerances are constants, listed in README.md. No scenario can change them.
package fidelity

import (
	"time"

	"weir/internal/units"
	"weir/kernel/netns"
	"weir/lab/fidelity/witness"
	"weir/lab/link"
)

// Endpoint is a device in a namespace: a host's end of a link, or a carrier's.
type Endpoint struct {
	Namespace *netns.Namespace
	Device    string
}

// Link is an emulated link between two hosts with its requested properties. Forward is A to B.
type Link struct {
	Name    string
	A, B    Endpoint // the hosts' ends
	Forward link.Direction
	Reverse link.Direction
}

// Calibration is the result of probe frames on a link.
type Calibration struct {
	Link             string    `json:"link"`
	Forward, Reverse Measured  `json:"-"`
	Problems         []string  `json:"problems,omitempty"` // descriptions; empty if the link matches the request
	At               time.Time `json:"at"`
}

// Measured is the result of one direction. A field is 0 if there was nothing to measure.
type Measured struct {
	Rate        units.BitRate // on the wire, as in link.Direction; 0 without a requested rate
	DelayMin    time.Duration // one-way delay of single frames on the idle link, including serialization
	DelayMedian time.Duration
	DelayMean   time.Duration
	Sent        uint64
	Arrived     uint64  // distinct frames, damaged ones included
	Loss        float64 // share
	LossLow     float64 // expected range for the requested loss with this number of frames, 4 standard deviations
	LossHigh    float64
}

// OK reports whether the link matches the request.
func (c Calibration) OK() bool { return len(c.Problems) == 0 }

// Judgement is the result of a watch.
type Judgement struct {
	Valid    bool     `json:"valid"`
	Reasons  []string `json:"reasons,omitempty"` // causes, each with its figure and limit
	Drops    uint64   `json:"veth_drops"`
	Overruns uint64   `json:"overruns"` // frames the carrier lost
	// Lateness is the delay of frames behind schedule in the carrier, over all links; 0 if unknown.
	LatenessP50 time.Duration `json:"lateness_p50_ns"`
	LatenessP99 time.Duration `json:"lateness_p99_ns"`
	Busy        []float64     `json:"cpu_busy"`  // busy share of each CPU
	Steal       float64       `json:"cpu_steal"` // share of CPU time stolen by the hypervisor
	// Stall is the longest time for which a frame that had arrived or was due waited in the
	// carrier. Behind is the sum of such times longer than the tolerated lateness, of the worst
	// direction.
	Stall  time.Duration `json:"longest_stall_ns"`
	Behind time.Duration `json:"behind_ns"`
	// Witness is the report of package witness; nil without one.
	Witness *witness.Report `json:"-"`
}

// Limits are a run's tolerances. The zero value is not useful: start from DefaultLimits.
type Limits struct {
	LatenessP50 time.Duration
	LatenessP99 time.Duration
	Stall       time.Duration
	Behind      float64 // share of the time, in stalls longer than LatenessP99
	Busy        float64 // of the least busy CPU
	Steal       float64
}

// DefaultLimits returns the tolerances for a run with the given shortest emulated delay. Median
// lateness: 100 µs or 5 % of the delay, whichever is more; 99th percentile: 2 ms or 20 % of it.
//
// One stall of the carrier may last 50 ms. Stalls longer than the tolerated 99th percentile may
// take 2 % of the time. CPUs may be 99 % busy and 5 % stolen.
func DefaultLimits(shortest time.Duration) Limits {
	return Limits{
		LatenessP50: max(100*time.Microsecond, shortest/20),
		LatenessP99: max(2*time.Millisecond, shortest/5),
		Stall:       50 * time.Millisecond,
		Behind:      0.02,
		Busy:        0.99,
		Steal:       0.05,
	}
}
