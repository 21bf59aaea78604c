// SPDX-License-Identifier: Apache-2.0

package scoreboard

import (
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"weir/record"
	"weir/record/bundle"
	"weir/record/stats"
	"weir/record/summary"
)

// Figure is a mean over the valid repetitions in a run's bundle, with its 95 % interval, or a ratio
// of two.
type Figure struct {
	Name       string        `yaml:"name"`
	Metric     string        `yaml:"metric"`
	Subject    string        `yaml:"subject"`
	Where      record.Labels `yaml:"where"`       // labels of exactly one cell
	RelativeTo record.Labels `yaml:"relative_to"` // labels of the cell to divide by
	Of         string        `yaml:"of"`          // subject to divide by
	Times      float64       `yaml:"times"`       // factor of a ratio; 1 if left out
}

// evidence is the board's extract of a bundle.
type evidence struct {
	manifest record.Manifest
	rows     []summary.Row
}

func readEvidence(folder string) (evidence, error) {
	b, err := bundle.Read(folder)
	if err != nil {
		return evidence{}, err
	}
	return evidence{b.Manifest, summary.Rows(b.Samples)}, nil
}

// fill reads figures, intervals, commands and kernels of rows from bundles.
func (b *Board) fill(folder string) error {
	read := map[string]evidence{}
	for name, run := range b.Runs {
		if run.Bundle == "" {
			continue
		}
		e, err := readEvidence(filepath.Join(folder, run.Bundle))
		if err != nil {
			return err
		}
		if run.Command != "" || run.Kernel != "" {
			return fmt.Errorf("run %s has a command and a kernel of its own, and a bundle", name)
		}
		run.Command, run.Kernel = strings.TrimSpace(run.Under+" "+command(e.manifest.Command)), e.manifest.Machine.Kernel
		if e.manifest.Machine.Clock != "" {
			run.Kernel += ", clock of " + e.manifest.Machine.Clock
		}
		b.Runs[name], read[name] = run, e
	}
	for i := range b.Rows {
		if err := b.Rows[i].fill(read); err != nil {
			return fmt.Errorf("row %d: %w", i+1, err)
		}
	}
	return nil
}

// command omits the bundle's folder.
func command(arguments []string) string {
	if at := slices.Index(arguments, "--out"); at >= 0 {
		arguments = slices.Delete(slices.Clone(arguments), at, min(at+2, len(arguments)))
	}
	return strings.Join(arguments, " ")
}

func (r *Row) fill(read map[string]evidence) error {
	if len(r.Figures) > 0 {
		if r.Weir != "" || r.Interval != "" || len(r.Quotes) > 0 {
			return errors.New("figures of a bundle are a row's only ones")
		}
		values, intervals, err := figures(read, r.Run, r.Figures)
		if err != nil {
			return err
		}
		r.Weir, r.Interval = list(values, fewValues), strings.Join(intervals, ", ")
	}
	for i := range r.Tried {
		t := &r.Tried[i]
		values, intervals, err := figures(read, t.Run, t.Figures)
		if err != nil {
			return err
		}
		for i := range values {
			values[i] += " " + intervals[i]
		}
		t.found = list(values, 0)
	}
	return nil
}

// fewValues is the number of values up to which a cell is one sentence.
const fewValues = 4

// list joins values by commas or, above a number of them, as sentences.
func list(values []string, few int) string {
	if len(values) <= few {
		return strings.Join(values, ", ")
	}
	sentences := make([]string, len(values))
	for i, v := range values {
		sentences[i] = heading(v)
	}
	return strings.Join(sentences, ". ")
}

// figures prints the figures of a run: each with its name, and the interval.
func figures(read map[string]evidence, run string, list []Figure) (values, intervals []string, err error) {
	e, known := read[run]
	if !known || len(list) == 0 {
		return nil, nil, fmt.Errorf("%d figures of the run %q, which has no bundle or needs some", len(list), run)
	}
	for _, f := range list {
		value, interval, err := e.figure(f)
		if err != nil {
			return nil, nil, err
		}
		values, intervals = append(values, strings.TrimSpace(f.Name+" "+value)), append(intervals, interval)
	}
	return values, intervals, nil
}

// figure prints a value and its interval.
func (e evidence) figure(f Figure) (value, interval string, err error) {
	row, err := e.find(f.Metric, f.Subject, f.Where)
	if err != nil {
		return "", "", err
	}
	if f.RelativeTo == nil && f.Of == "" {
		return printed(row.Unit, row.Estimate.Mean, row.Estimate.Low, row.Estimate.High)
	}
	where, of := maps.Clone(row.Labels), f.Of
	maps.Copy(where, f.RelativeTo)
	if of == "" {
		of = f.Subject
	}
	base, err := e.find(f.Metric, of, where)
	if err != nil {
		return "", "", err
	}
	times := f.Times
	if times == 0 {
		times = 1
	}
	ratio, ok := stats.Ratio(row.Values, base.Values)
	if !ok || ratio.Low == nil {
		return "", "", fmt.Errorf("%s of %s over %s has no interval", f.Metric, f.Subject, of)
	}
	percent := func(v float64) *float64 { v *= 100 * times; return &v }
	value, interval, err = printed(record.Count, *percent(ratio.Value), percent(*ratio.Low), percent(*ratio.High))
	return value + " %", interval + " %", err
}

func printed(unit record.Unit, mean float64, low, high *float64) (value, interval string, err error) {
	if low == nil || high == nil {
		return "", "", errors.New("one repetition has no interval")
	}
	return unit.Format(mean), "[" + unit.Format(*low) + ", " + unit.Format(*high) + "]", nil
}

// find returns the one row of a metric and a subject with all labels of where.
func (e evidence) find(metric, subject string, where record.Labels) (found summary.Row, err error) {
	n := 0
	for _, row := range e.rows {
		if row.Metric != metric || row.Subject != subject || row.Estimate.N == 0 || !holds(row.Labels, where) {
			continue
		}
		found, n = row, n+1
	}
	if n != 1 {
		err = fmt.Errorf("%d cells of the bundle have %s of %s at %s", n, metric, subject, summary.Text(where))
	}
	return found, err
}

func holds(labels, where record.Labels) bool {
	for name, value := range where {
		if labels[name] != value {
			return false
		}
	}
	return true
}
