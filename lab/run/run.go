// SPDX-License-Identifier: Apache-2.0

// Package run executes scenarios: every cell, every repetition, in random order, each on a testbed
// of its own that is built, calibrated, loaded, judged and taken down.
//
// A run whose testbed failed is invalid: it is kept as evidence with its reason and repeated. When
// all attempts of a repetition are invalid the machine cannot carry the cell, and [Execute] says so
// with [Unfit]. Nothing here computes a figure: that is analysis' work.
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

// Options say how a scenario is to be executed. Carrier, Generator and Gate must be set.
type Options struct {
	Carrier   link.Carrier
	Generator traffic.Generator
	Gate      Gate
	Seed      uint64
	// CarrierReason says why the carrier was chosen, for the manifest.
	CarrierReason string
	// Patience is waited before the second attempt, twice that before the third: what disturbed the
	// machine may pass.
	Patience time.Duration
	// KeepGoing goes on to other cells after one that this machine cannot carry.
	KeepGoing bool
	// Share measures while another run on this machine measures too, instead of taking turns.
	Share bool
	// Capture, if not empty, is a folder for a packet trace of each emulated link and run, with so
	// many octets of each frame.
	Capture       string
	CaptureOctets int
	Report        func(Event) // told what happens; nil is told nothing; never called from two goroutines at once
	Stderr        io.Writer   // of child processes

	// during is called beside each phase's traffic: tests spoil runs with it. It must have returned
	// for the phase to end.
	during func(ctx context.Context, bench *Bench)
}

// Gate decides whether a testbed may be believed. Its one implementation for real work is
// [Fidelity].
type Gate interface {
	// Begin takes down how a testbed was built.
	Begin(bench *Bench) error
	// Calibrate measures every emulated link on an idle testbed.
	Calibrate(ctx context.Context, bench *Bench) ([]fidelity.Calibration, error)
	// Watch observes the testbed from now on until Judge is called.
	Watch(ctx context.Context, bench *Bench) (Watch, error)
	// Capacity says what this machine does carry of a cell that it could not carry; "" if it cannot
	// tell.
	Capacity(ctx context.Context, carrier link.Carrier, cell *scenario.Cell) (string, error)
}

// Watch is an observation of one run.
type Watch interface {
	// Settled says that the part of the first phase that is left out of the figures is over.
	Settled() error
	// Judge ends the observation, of the phases' flows among others.
	Judge(ctx context.Context, phases []PhaseResult) (fidelity.Judgement, error)
}

// Result is one attempt at one repetition of one cell.
type Result struct {
	Cell         *scenario.Cell
	Repetition   int // from 1
	Attempt      int // from 1
	Valid        bool
	Reasons      []string // why it is not valid
	Began        time.Time
	Took         time.Duration // with building and taking down
	Phases       []PhaseResult
	Links        []link.Status // counted from the first phase's start to the last one's end
	Calibrations []fidelity.Calibration
	Judgement    fidelity.Judgement
	Traces       []Trace
	// Depths are the lengths of the queues of Links over time, since the first phase's start; nil
	// where the carrier does not look.
	Depths [][2][]uint32
}

// Trace is a file with the frames of one emulated link.
type Trace struct{ Link, Path string }

// PhaseResult is what the flows and streams of a phase did, in the scenario's order.
type PhaseResult struct {
	Phase   scenario.Phase
	Began   time.Duration // since the first phase's start
	Flows   []traffic.Result
	Streams []StreamResult
	// Procedure is the phase's benchmark; nil where it has none.
	Procedure *ProcedureResult
	Limits    []limits.Status // counted since the end of the settle time
	Counted   time.Duration   // for how long
	Domain    []domain.Status // of the nodes of an IOAM domain, counted over the whole phase
}

// StreamResult is what became of a tester stream.
type StreamResult struct {
	Stream scenario.TesterStream
	Sent   tester.Sent
	Counts tester.Counts
	Lost   uint64 // sent and never arrived
	// Problem says why the stream could not be measured; "" if it was.
	Problem string
}

// Outcome is everything that an execution measured.
type Outcome struct {
	Scenario   *scenario.Scenario
	Cells      []scenario.Cell // of the sweep
	Results    []Result        // of Cells, and of the single flows that go with them: see scenario.Cell.Solos
	Mechanisms map[string]string
	Notes      []string
	Stopped    bool              // the context ended; Results hold what was measured until then
	Chosen     map[string]string // the fallback parameter and its value
	Unfit      []Unfit
}

// Unfit is a cell that this machine did not carry in all attempts of a repetition. It is an error.
type Unfit struct {
	Cell       *scenario.Cell
	Repetition int
	Reasons    []string // of each attempt, in short
}

func (u *Unfit) Error() string {
	return fmt.Sprintf("this machine does not carry %s: %d of %d attempts were invalid, the last one because %s",
		CellName(u.Cell), len(u.Reasons), len(u.Reasons), u.Reasons[len(u.Reasons)-1])
}

// lacksProgram says whether all attempts broke off for a program that the shell did not find (POSIX
// Shell Command Language, 2.8.2), whatever the machine carries.
func (u *Unfit) lacksProgram() bool {
	return !slices.ContainsFunc(u.Reasons, func(reason string) bool { return !strings.Contains(reason, "exit status 127") })
}

// Reason is why the run is not valid, whole.
func (r *Result) Reason() string { return strings.Join(r.Reasons, "; ") }

// headline is the first reason and how many more there are.
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
