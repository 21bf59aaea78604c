// SPDX-License-Identifier: Apache-2.0

// Package record defines the one form of measurements in Weir: rows, series and histograms with
// units, verdicts, and a manifest of their origin. They are written as an evidence bundle, a folder
// that anyone can open offline.
//
// The package is pure except for reading and writing that folder. Every quantity is in the base
// unit of its kind (bit/s, s, byte, frame, 1 for a share); only printing scales it.
package record

import (
	"fmt"
	"io"
	"os"
	"time"

	"weir/record/hist"
)

// Unit is the unit of a value, always a base unit.
type Unit string

const (
	BitPerSecond   Unit = "bit/s"
	FramePerSecond Unit = "frame/s"
	Seconds        Unit = "s"
	Bytes          Unit = "byte"
	Frames         Unit = "frame"
	Count          Unit = "count"
	Share          Unit = "1" // a ratio, a probability, an index
)

// Labels name the varied parameters: parameter to value, as in the scenario ("loss": "1%", "cc":
// "cubic").
type Labels map[string]string

// Sample is one figure of one run. Samples with Valid false are kept as evidence and never enter a
// statistic.
type Sample struct {
	Labels     Labels  `json:"labels"`
	Subject    string  `json:"subject"` // the measured object: a flow, "aggregate", a link, a stream
	Metric     string  `json:"metric"`  // "goodput", "jain_index", "owd_p99"
	Unit       Unit    `json:"unit"`
	Repetition int     `json:"repetition"` // from 1
	Attempt    int     `json:"attempt"`    // from 1; above 1 if an earlier attempt was invalid
	Value      float64 `json:"value"`
	Valid      bool    `json:"valid"`
	Reason     string  `json:"reason,omitempty"` // reason if it is not valid
}

// Point is one value of a time series.
type Point struct {
	Labels     Labels        `json:"labels"`
	Subject    string        `json:"subject"`
	Metric     string        `json:"metric"`
	Unit       Unit          `json:"unit"`
	Repetition int           `json:"repetition"`
	Attempt    int           `json:"attempt"`
	At         time.Duration `json:"at"` // since the run's traffic began
	Value      float64       `json:"value"`
}

// Distribution is a histogram of one quantity of one run. Its values are integers in the unit's
// billionth (ns for Seconds).
type Distribution struct {
	Labels     Labels          `json:"labels"`
	Subject    string          `json:"subject"`
	Metric     string          `json:"metric"`
	Unit       Unit            `json:"unit"`
	Repetition int             `json:"repetition"`
	Attempt    int             `json:"attempt"`
	Valid      bool            `json:"valid"`
	Histogram  *hist.Histogram `json:"histogram"`
}

// Outcome is the result of an expectation.
type Outcome string

const (
	Holds       Outcome = "holds"
	Fails       Outcome = "fails"
	NotMeasured Outcome = "not measured" // the testbed could not support it; see Verdict.Reason
)

// Verdict compares one expectation with the measurement.
type Verdict struct {
	Name     string  `json:"name"`
	Labels   Labels  `json:"labels,omitempty"`
	Expected string  `json:"expected"`
	Measured string  `json:"measured"`
	Outcome  Outcome `json:"outcome"`
	Reason   string  `json:"reason,omitempty"`
}

// Table is a table of the report and of the terminal, with cells of text.
type Table struct {
	Title   string     `json:"title"`
	Note    string     `json:"note,omitempty"`
	Columns []string   `json:"columns"`
	Rows    [][]string `json:"rows"`
}

// FigureKind is the way in which a figure's curves are drawn.
type FigureKind string

const (
	Lines    FigureKind = "lines"    // points joined by lines, with interval bars if Low and High are set
	Steps    FigureKind = "steps"    // a staircase: a CDF
	BarChart FigureKind = "bars"     // one group of bars per X, named by XNames
	TimeLine FigureKind = "timeline" // like Lines, X in seconds, without markers
)

// Figure is a plot, described independently of how it is drawn.
type Figure struct {
	Name     string     `json:"name"` // file name without extension: "goodput-by-loss"
	Title    string     `json:"title"`
	Subtitle string     `json:"subtitle,omitempty"`
	Kind     FigureKind `json:"kind"`
	XLabel   string     `json:"x_label"`
	YLabel   string     `json:"y_label"`
	XUnit    Unit       `json:"x_unit"`
	YUnit    Unit       `json:"y_unit"`
	LogX     bool       `json:"log_x,omitempty"`
	LogY     bool       `json:"log_y,omitempty"`
	XNames   []string   `json:"x_names,omitempty"` // categories for BarChart, in order
	Curves   []Curve    `json:"curves"`
}

// Curve is one line or set of bars of a figure. Low and High, if set, are as long as X.
type Curve struct {
	Name      string    `json:"name"`
	X         []float64 `json:"x"`
	Y         []float64 `json:"y"`
	Low       []float64 `json:"low,omitempty"`
	High      []float64 `json:"high,omitempty"`
	Reference bool      `json:"reference,omitempty"` // a published or predicted line: drawn dashed
}

// Machine is the host of a bundle's measurement.
type Machine struct {
	Kernel  string `json:"kernel"`
	CPU     string `json:"cpu"`
	Cores   int    `json:"cores"`
	Memory  int64  `json:"memory_bytes"`
	Distro  string `json:"distribution"`
	Virtual string `json:"virtualization,omitempty"`
	// Clock is InstructionClock if the machine's clock counts instructions, "" if it counts time.
	Clock string `json:"clock,omitempty"`
}

// InstructionClock is a virtual clock that advances by one nanosecond per instruction (QEMU's
// -icount shift=0) and from timer to timer while the machine is idle: no figure includes the cost
// of code.
const InstructionClock = "instructions"

// Manifest describes the origin of a bundle and the command to repeat the measurement.
type Manifest struct {
	Format     string            `json:"format"` // "weir-bundle/1"
	Kind       string            `json:"kind"`   // "lab", "tester", "rfc2544", "overlay" ...
	Name       string            `json:"name"`   // the scenario's or specification's name
	Version    string            `json:"weir_version"`
	Command    []string          `json:"command"`
	Started    time.Time         `json:"started"`
	Finished   time.Time         `json:"finished"`
	Machine    Machine           `json:"machine"`
	Mechanisms map[string]string `json:"mechanisms"` // chosen by the probes: "link": "AF_XDP emulator"
	Seed       uint64            `json:"seed"`
	Parameters map[string]string `json:"parameters,omitempty"` // --set values and flags that changed the run
	Source     string            `json:"source,omitempty"`     // the whole scenario file
	Notes      []string          `json:"notes,omitempty"`      // remarks for interpreting the figures: rejected attempts, a stopped run
	Stopped    bool              `json:"stopped,omitempty"`    // ended early by the user; earlier results are kept
}

// Bundle is the content of an evidence bundle.
type Bundle struct {
	Manifest      Manifest
	Samples       []Sample
	Points        []Point
	Distributions []Distribution
	Verdicts      []Verdict
	Tables        []Table
	Figures       []Figure
	Proofs        []Proof // of the runs that count
	Attachments   []Attachment
}

// Attachment is a file stored unchanged in a bundle, such as a program's output or a packet trace.
// It is written and never read back.
type Attachment struct {
	Name    string // relative, with slashes
	Content []byte
	Path    string // of a file with the content, instead of Content
}

// Copy writes the attachment's content.
func (a Attachment) Copy(w io.Writer) error {
	if a.Path == "" {
		_, err := w.Write(a.Content)
		return err
	}
	file, err := os.Open(a.Path)
	if err != nil {
		return fmt.Errorf("attachment %s: %w", a.Name, err)
	}
	defer func() { _ = file.Close() }()
	_, err = io.Copy(w, file)
	return err
}

// FormatBundle is the value of Manifest.Format that this package reads and writes.
const FormatBundle = "weir-bundle/1"
