// SPDX-License-Identifier: Apache-2.0

// Package run executes scenarios: every cell, every repetition, in random order. Each has its own
// testbed, which is built, calibrated, loaded, judged and removed.
//
// A run with a failed testbed is invalid: it is kept as evidence with its reason, and repeated. If
// all attempts of a repetition are invalid, the machine cannot carry the cell, and [Execute]
// returns [Unfit]. Figures are computed by package analysis, not here.
package run

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"weir/lab/domain"
	"weir/lab/fidelity"
	"weir/lab/limits"
	"weir/lab/link"
	"weir/lab/scenario"
	"weir/lab/traffic"
	"weir/tester"
)

// Options choose the execution of a scenario. Carrier, Generator and Gate must be set.
type Options struct {
	Carrier   link.Carrier
	Generator traffic.Generator
	Gate      Gate
	Seed      uint64
	// CarrierReason is the reason for the choice of the carrier, for the manifest.
	CarrierReason string
	// Patience is the wait before the second attempt; the third waits twice as long: a disturbance
	// of the machine may end.
	Patience time.Duration
	// KeepGoing continues with other cells after one that this machine cannot carry.
	KeepGoing bool
	// Share measures beside other runs on this machine instead of in turn.
	Share bool
	// Capture, if not empty, is a folder for packet traces, one for each emulated link and run,
	// with a snapshot length in bytes.
	Capture       string
	CaptureOctets int
	Report        func(Event) // receives progress if not nil; never called concurrently
	Stderr        io.Writer   // of child processes

	// during runs beside each phase's traffic: tests spoil runs with it. The phase ends after it
	// has returned.
	during func(ctx context.Context, bench *Bench)
	// clock replaces time.Now in tests.
	clock func() time.Time
}

// Gate decides whether a testbed is valid. [Fidelity] is the implementation for real work.
type Gate interface {
	// Begin records the configuration of a built testbed.
	Begin(bench *Bench) error
	// Calibrate measures every emulated link on an idle testbed.
	Calibrate(ctx context.Context, bench *Bench) ([]fidelity.Calibration, error)
	// Watch observes the testbed until Judge is called.
	Watch(ctx context.Context, bench *Bench) (Watch, error)
	// Capacity measures the rate that this machine carries, for a cell that it could not carry; ""
	// if unknown.
	Capacity(ctx context.Context, carrier link.Carrier, cell *scenario.Cell) (string, error)
}

// Watch is an observation of one run.
type Watch interface {
	// Settled marks the end of the first phase's settle time: the caller calls it at that moment.
	Settled() error
	// Judge ends the observation and judges the phases.
	Judge(ctx context.Context, phases []PhaseResult) (fidelity.Judgement, error)
}

// Result is one attempt of one repetition of one cell.
type Result struct {
	Cell         *scenario.Cell
	Repetition   int // from 1
	Attempt      int // from 1
	Valid        bool
	Reasons      []string // causes of an invalid result
	Began        time.Time
	Took         time.Duration // including building and removal
	Phases       []PhaseResult
	Links        []link.Status // from the first phase's start to the last one's end
	Calibrations []fidelity.Calibration
	Judgement    fidelity.Judgement
	Traces       []Trace
	// Depths holds the queue lengths of Links over time, from the first phase's start; nil if the
	// carrier does not sample them.
	Depths [][2][]uint32
}

// Trace is a file with the frames of one emulated link.
type Trace struct{ Link, Path string }

// PhaseResult holds the results of a phase's flows and streams, in the scenario's order.
type PhaseResult struct {
	Phase   scenario.Phase
	Began   time.Duration // since the first phase's start
	Flows   []traffic.Result
	Streams []StreamResult
	// Procedure is the phase's benchmark; nil without one.
	Procedure *ProcedureResult
	Limits    []limits.Status // from the end of the settle time
	Counted   time.Duration   // duration of that count
	Domain    []domain.Status // of the nodes of an IOAM domain, counted over the whole phase
}

// StreamResult is the result of a tester stream.
type StreamResult struct {
	Stream scenario.TesterStream
	Sent   tester.Sent
	Counts tester.Counts
	Lost   uint64 // sent and never arrived
	// Problem is the reason that the stream was not measured, or "".
	Problem string
}

// Outcome is everything that an execution measured.
type Outcome struct {
	Scenario   *scenario.Scenario
	Cells      []scenario.Cell // of the sweep
	Results    []Result        // of Cells and of their solo runs: see scenario.Cell.Solos
	Mechanisms map[string]string
	Notes      []string
	Stopped    bool              // the context ended; Results hold the runs so far
	Chosen     map[string]string // the fallback parameter and its value
	Unfit      []Unfit
}

// Unfit is the error for a cell that this machine did not carry in any attempt of a repetition.
type Unfit struct {
	Cell       *scenario.Cell
	Repetition int
	Reasons    []string // of each attempt, abridged
}

func (u *Unfit) Error() string {
	return fmt.Sprintf("this machine does not carry %s: %d of %d attempts were invalid, the last one because %s",
		CellName(u.Cell), len(u.Reasons), len(u.Reasons), u.Reasons[len(u.Reasons)-1])
}

// lacksProgram reports whether all attempts ended because the shell did not find a program (POSIX
// Shell Command Language, 2.8.2). Then the machine's capacity is not the cause.
func (u *Unfit) lacksProgram() bool {
	return !slices.ContainsFunc(u.Reasons, func(reason string) bool { return !strings.Contains(reason, "exit status 127") })
}

// Reason joins all causes of an invalid run.
func (r *Result) Reason() string { return strings.Join(r.Reasons, "; ") }

// headline is the first reason with the number of others.
func (r *Result) headline() string {
	switch len(r.Reasons) {
	case 0:
		return ""
	case 1:
		return r.Reasons[0]
	}
	return fmt.Sprintf("%s (and %d more)", r.Reasons[0], len(r.Reasons)-1)
}

// CellName names a cell by its labels, in the order of the parameters' names: "cc=bbr loss=1%".
func CellName(cell *scenario.Cell) string {
	if len(cell.Labels) == 0 {
		return "the scenario"
	}
	var parts []string
	for _, name := range sortedKeys(cell.Labels) {
		parts = append(parts, name+"="+cell.Labels[name])
	}
	return strings.Join(parts, " ")
}
