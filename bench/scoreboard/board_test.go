// SPDX-License-Identifier: Apache-2.0

// Package scoreboard makes docs/results/published.md, published results of others beside
// measurements here, from docs/results/published.yaml and the documents that it quotes.
//
// A figure comes from an evidence bundle below docs/results, with its interval, command and kernel,
// or from a document there if its bundle was not kept. For documents [Board.Check] finds every
// quote, every number of a figure in its quotes, and the command and the kernel.
package scoreboard

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

//go:generate go test -count=1 -run TestTheDocumentIsGeneratedFromItsSources . -args -write

// The two files, in the folder of results.
const (
	Data     = "published.yaml"
	Document = "published.md"
)

// Board is the content of published.yaml.
type Board struct {
	Runs map[string]Run `yaml:"runs"`
	Rows []Row          `yaml:"rows"`
}

// Run is the origin of figures.
type Run struct {
	Document string `yaml:"document"` // in the folder of results
	Bundle   string `yaml:"bundle"`   // in the folder of results; has the command and the kernel
	Under    string `yaml:"under"`    // command around the bundle's command
	Command  string `yaml:"command"`
	Kernel   string `yaml:"kernel"`
}

// Row is one published result. Without Weir nothing was measured.
type Row struct {
	Source    string   `yaml:"source"` // that of the previous row if empty
	Published string   `yaml:"published"`
	Weir      string   `yaml:"weir"`
	Interval  string   `yaml:"interval"`
	Run       string   `yaml:"run"`
	Quotes    []string `yaml:"quotes"`  // of the run's document
	Figures   []Figure `yaml:"figures"` // of the run's bundle
	Verdict   string   `yaml:"verdict"`
	Why       string   `yaml:"why"` // reason of a difference, or requirement of a measurement
	Tried     []Tried  `yaml:"tried"`
}

func (r Row) uses(run string) bool {
	return r.Run == run || slices.ContainsFunc(r.Tried, func(t Tried) bool { return t.Run == run })
}

// Tried is an experiment about the cause of a difference.
type Tried struct {
	Run     string   `yaml:"run"`
	Figures []Figure `yaml:"figures"`
	found   string   // the figures and their intervals
}

// Verdicts, the measured ones first.
const (
	repeated    = "repeated"
	inPart      = "in part"
	differs     = "differs"
	notMeasured = "not measured"
	cannot      = "cannot be had here"
)

var verdicts = []string{repeated, inPart, differs, notMeasured, cannot}

// Read reads the data file in a folder of results.
func Read(folder string) (Board, error) {
	text, err := os.ReadFile(filepath.Join(folder, Data))
	if err != nil {
		return Board{}, err
	}
	var b Board
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	decoder.KnownFields(true)
	if err := decoder.Decode(&b); err != nil {
		return b, fmt.Errorf("read %s: %w", Data, err)
	}
	for i := 1; i < len(b.Rows); i++ {
		if b.Rows[i].Source == "" {
			b.Rows[i].Source = b.Rows[i-1].Source
		}
	}
	return b, b.fill(folder)
}

// Check reports all mistakes of the board: quotes that its documents lack, and missing fields.
func (b Board) Check(folder string) error {
	var all []error
	for i, row := range b.Rows {
		if err := b.check(folder, row); err != nil {
			all = append(all, fmt.Errorf("row %d: %w", i+1, err))
		}
	}
	for name := range b.Runs {
		if !slices.ContainsFunc(b.Rows, func(r Row) bool { return r.uses(name) }) {
			all = append(all, fmt.Errorf("run %s has no row", name))
		}
	}
	return errors.Join(all...)
}

func (b Board) check(folder string, row Row) error {
	measured := slices.Index(verdicts, row.Verdict) < slices.Index(verdicts, notMeasured)
	run, known := b.Runs[row.Run]
	switch {
	case row.Published == "" || row.Source == "":
		return errors.New("nothing published")
	case !slices.Contains(verdicts, row.Verdict):
		return fmt.Errorf("verdict %q", row.Verdict)
	case row.Why == "" && row.Verdict != repeated:
		return fmt.Errorf("%s, and no reason", row.Verdict)
	case measured != (row.Weir != "") || measured != known || measured != (row.Interval != "") || measured != (len(row.Quotes)+len(row.Figures) > 0):
		return fmt.Errorf("%s, with the figure %q, interval %q, run %q and %d quotes", row.Verdict, row.Weir, row.Interval, row.Run, len(row.Quotes))
	case !measured || len(row.Figures) > 0:
		return nil
	}
	content, err := os.ReadFile(filepath.Join(folder, run.Document))
	if err != nil {
		return err
	}
	said := flat(string(content))
	for _, text := range append([]string{run.Command, run.Kernel}, row.Quotes...) {
		if text == "" || !strings.Contains(said, flat(text)) {
			return fmt.Errorf("%s does not say %q", run.Document, text)
		}
	}
	for _, n := range number.FindAllString(row.Weir+" "+row.Interval, -1) {
		if !slices.Contains(number.FindAllString(strings.Join(row.Quotes, " "), -1), n) {
			return fmt.Errorf("%s is in none of the quotes", n)
		}
	}
	return nil
}

var number = regexp.MustCompile(`[−+]?\b\d+(\.\d+)?`)

// flat returns text without line breaks.
func flat(text string) string { return strings.Join(strings.Fields(text), " ") }
