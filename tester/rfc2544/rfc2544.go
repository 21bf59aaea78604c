// SPDX-License-Identifier: Apache-2.0

// Package rfc2544 benchmarks a network device by the procedures of RFC 2544 and, for bursts, RFC
// 9004: throughput, latency, frame loss rate, back-to-back frames, system recovery and reset.
//
// The procedures are pure: they request trials from a [Bench] and judge the outcomes. A trial is
// invalid if the offered load fell short, the generator was late, the analyzer missed frames, or
// the hypervisor took CPU time: it is repeated and never enters a result. Without any valid trial
// the result is "not measured", with the reason.
//
// Pitfalls: on a shared machine outcomes are not monotone, so a failing trial is repeated before it
// counts as failing (binary search with loss verification, ETSI GS NFV-TST 009 clause 12.3.3,
// required by RFC 9004 section 6.2). A generator and a device under test on one core never lose
// anything: the generator throttles itself. RFC 6815: run this in a laboratory, never on a network
// in use.
package rfc2544

import (
	"context"
	"time"

	"weir/internal/units"
	"weir/record/hist"
	"weir/tester"
)

// Test is one of the six benchmarks.
type Test string

const (
	Throughput Test = "throughput"   // RFC 2544 section 26.1
	Latency    Test = "latency"      // 26.2
	FrameLoss  Test = "frame-loss"   // 26.3
	BackToBack Test = "back-to-back" // 26.4, RFC 9004
	Recovery   Test = "recovery"     // 26.5
	Reset      Test = "reset"        // 26.6
)

// Tests are all benchmarks in the order of execution; each may use the throughput found first.
var Tests = []Test{Throughput, Latency, FrameLoss, BackToBack, Recovery, Reset}

// StandardSizes are the Ethernet frame sizes of RFC 2544 section 9.1, in octets with FCS.
var StandardSizes = []int{64, 128, 256, 512, 1024, 1280, 1518}

// IPv6Sizes are the same for IPv6, with at least 84 octets for the stamp.
var IPv6Sizes = []int{84, 128, 256, 512, 1024, 1280, 1518}

// Trial is one step of a test: frames of one size at one rate. The zero Rate sends as fast as
// possible.
type Trial struct {
	Size     int           // octets, FCS included
	Rate     float64       // frame/s in each direction
	Duration time.Duration // of sending
	Frames   uint64        // number of frames to send; 0 is by Duration
	Batch    int           // tester.Schedule.Batch: 1 for latency
	Then     *Step         // recovery: continue at another rate
	Even     bool          // never closer than the gap: a late frame shifts all later ones
	Whole    bool          // from one CPU, at any rate
}

// Step is the second part of a recovery trial.
type Step struct {
	Rate     float64
	Duration time.Duration
}

// Outcome is the result of a trial, per direction.
type Outcome struct {
	Directions []Flow
	Late       uint64         // frames that left more than a gap, and more than LateAfter, after their due time
	Dropped    uint64         // frames the tester itself lost before analyzing them
	Steal      float64        // share of CPU time that other guests of the host took
	Others     float64        // share of CPU time that other programs spent in user space
	LinkDown   bool           // a link of the tester went down
	Refused    uint64         // lost frames that found the device's receive ring full
	Device     *DeviceReading // counters of the device during the trial; nil for an external device
	Elapsed    time.Duration  // whole trial
	Together   uint64         // maximum burst of the tester, from coalescing or catching up
	Even       bool           // the trial was an even one
}

// LateAfter is the minimum delay of a frame that counts as late.
const LateAfter = 100 * time.Microsecond

// Flow is one direction of a trial.
type Flow struct {
	Sent, Received uint64  // frames; Received without duplicates
	Offered        float64 // frame/s sent, from the first to the last stamp; 0 with fewer than two frames
	Forwarded      float64 // frame/s received, from the first to the last arrival
	Duplicates     uint64
	Reordered      uint64
	Delay          *hist.Histogram // ns
	// LastLoss is, with Trial.Then, the time from the change of rate to the sending of the last
	// frame that was lost; 0 without losses after the change.
	LastLoss time.Duration
}

// Lost returns the number of frames that did not arrive.
func (f Flow) Lost() uint64 { return f.Sent - min(f.Received, f.Sent) }

// Lost returns the loss of all directions.
func (o Outcome) Lost() (lost uint64) {
	for _, f := range o.Directions {
		lost += f.Lost()
	}
	return lost
}

// Sent returns the frames sent in all directions.
func (o Outcome) Sent() (sent uint64) {
	for _, f := range o.Directions {
		sent += f.Sent
	}
	return sent
}

// slowest returns the smallest value of f over the directions.
func (o Outcome) slowest(f func(Flow) float64) float64 {
	least := 0.0
	for i, direction := range o.Directions {
		if v := f(direction); i == 0 || v < least {
			least = v
		}
	}
	return least
}

// Bench is a device under test with a tester around it.
type Bench interface {
	// Learn sends a few frames in every direction, so that address tables fill (RFC 2544 section 23
	// b).
	Learn(ctx context.Context, size int) error
	// Trial runs one trial and waits for residual frames.
	Trial(ctx context.Context, trial Trial, residual time.Duration) (Outcome, error)
	// Silence sends the trial's stream, calls trigger, and returns the time from the last arrival
	// before the device's silence to the first one after it, in each direction.
	Silence(ctx context.Context, trial Trial, trigger func(context.Context) error) (time.Duration, error)
	// Describe returns the mechanisms of the bench.
	Describe() map[string]string
}

// Setup describes the test in a report.
type Setup struct {
	Sizes         []int
	Tests         []Test
	Speed         units.BitRate // of the medium; 0 if unlimited, as for virtual links
	Bidirectional bool
	IPv6          bool
	Stream        string // data stream format, for the report
	Medium        string
}

// MaxFrameRate returns the theoretical maximum of a medium in frame/s in one direction for frames
// of size octets (RFC 2544 appendix B); 0 without a speed.
func MaxFrameRate(speed units.BitRate, size int) float64 {
	return float64(speed) / float64((size+tester.WireOverhead)*8)
}
