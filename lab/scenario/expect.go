// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"fmt"
	"maps"
	"slices"
	"strconv"

	"weir/internal/units"
	"weir/internal/yamlfile"
	"weir/lab/expect"
	"weir/record"
)

// MaxRepetitions is the maximum number of repetitions of a cell.
const MaxRepetitions = 1000

const maxAttempts = 20

// tryRange is the advice for a number outside its bounds.
func tryRange(least, most int) string {
	return fmt.Sprintf("write a number from %d to %d", least, most)
}

// judge checks the head against the cells.
type judge struct {
	scenario *Scenario
	problems *yamlfile.Problems
	labels   []record.Labels
	cell     *Cell // the first one, for the names of its subjects
}

// judgeHead reads the statements about results: expectations, published figures and plots.
func (s *Scenario) judgeHead(p *yamlfile.Problems) error {
	h := &s.raw.head
	labels, err := s.labels()
	if err != nil {
		return err
	}
	j := &judge{scenario: s, problems: p, labels: labels}
	j.numbers(h)
	for i, skip := range h.Skip {
		for _, pair := range skip {
			for _, value := range pair.Value {
				if _, mistake := resolve(s.raw.parameters, pair.Key.Value, value); mistake != "" {
					p.Add(pair.Key.Place, "", "skip[%d]: %s", i, mistake)
				}
			}
		}
	}
	if len(labels) == 0 {
		p.Add(s.raw.tree.Root.Get("skip").Place, "skip less", "skip: no combination is left")
		return nil
	}
	var own yamlfile.Problems
	j.cell, _ = build(s.raw.read(variables(s.raw.parameters, labels[0], &own), &own), labels[0], &own)
	for i, e := range h.Expect {
		j.expectation(e, fmt.Sprintf("expect[%d]", i))
	}
	for i, e := range h.Published {
		j.figure(e, fmt.Sprintf("published[%d]", i))
	}
	for i, f := range h.Figures {
		j.plot(f, fmt.Sprintf("figures[%d]", i))
	}
	return nil
}

func (j *judge) complain(at yamlfile.Place, try, format string, args ...any) {
	j.problems.Add(at, try, format, args...)
}

func (j *judge) numbers(h *head) {
	at := j.scenario.raw.tree.Root
	if h.Version != 1 {
		j.complain(at.Get("version").Place, "write \"version: 1\"", "version: %d is not known here; this reads version 1", h.Version)
	}
	if n := j.scenario.Repetitions; n < 1 || n > MaxRepetitions {
		j.complain(at.Get("repetitions").Place, tryRange(1, MaxRepetitions), "repetitions: %d is outside 1 to %d", n, MaxRepetitions)
	}
	if n := j.scenario.Attempts; n < 1 || n > maxAttempts {
		j.complain(at.Get("attempts").Place, tryRange(1, maxAttempts), "attempts: %d is outside 1 to %d", n, maxAttempts)
	}
	if h.TimeLimit < 0 {
		j.complain(at.Get("time_limit").Place, "", "time_limit: %s is negative", h.TimeLimit)
	}
	if h.Fallback != nil && h.Fallback.Within < 0 {
		j.complain(h.Fallback.At("within"), "", "fallback.within: %s is negative", h.Fallback.Within)
	}
	if h.Fallback != nil && len(h.Fallback.Values) == 0 {
		j.complain(h.Fallback.At("values"), "", "fallback.values: no value is given")
	}
}

// where reads labels of a file in the parameters' own spelling.
func (j *judge) where(given yamlfile.Map[string], path string) (record.Labels, bool) {
	labels, ok := record.Labels{}, true
	for _, pair := range given {
		value, mistake := resolve(j.scenario.raw.parameters, pair.Key.Value, pair.Value)
		if mistake != "" {
			j.complain(pair.Key.Place, "", "%s: %s", path, mistake)
			ok = false
		}
		labels[pair.Key.Value] = value
	}
	return labels, ok
}

// about reads where and relative_to together.
func (j *judge) about(f yamlfile.Fields, path string, given yamlfile.Map[string], relative *yamlfile.Map[string]) (where, to record.Labels, ok bool) {
	where, ok = j.where(given, path+".where")
	if relative != nil {
		var known bool
		to, known = j.where(*relative, path+".relative_to")
		if len(to) == 0 && known {
			j.complain(f.At("relative_to"), "", "%s.relative_to: no parameter is given", path)
			known = false
		}
		ok = ok && known
	}
	if ok && !applies(j.labels, where, to) {
		j.complain(f.Self, "", "%s: no cell of the sweep matches where and relative_to", path)
		ok = false
	}
	return where, to, ok
}

// applies reports whether some cell has the labels of where, and another has those of to.
func applies(cells []record.Labels, where, to record.Labels) bool {
	for _, cell := range cells {
		if !matches(cell, where) {
			continue
		}
		other := maps.Clone(cell)
		maps.Copy(other, to)
		if slices.ContainsFunc(cells, func(c record.Labels) bool { return maps.Equal(c, other) }) {
			return true
		}
	}
	return false
}

func matches(cell, where record.Labels) bool {
	for name, value := range where {
		if cell[name] != value {
			return false
		}
	}
	return true
}

// expectation adds a statement for each subject.
func (j *judge) expectation(e expectFile, path string) {
	m, subjects, ok := j.each(e, path)
	where, to, about := j.about(e.Fields, path, e.Where, e.RelativeTo)
	if m.Of == OfSeries && ok {
		j.complain(e.At("metric"), "", "%s.metric: %q is a time series; an expectation needs a single figure", path, m.Name)
	}
	out := Expectation{Name: e.Name, Metric: m.Name, Where: where, RelativeTo: to}
	out.Statement = e.Read(&expect.Draft{Path: path, Place: e.Self, Complain: j.complain,
		Quantity: func(text *yamlfile.Text, path string) *float64 { return j.bound(text, path, m, to != nil) }})
	if ok && about {
		for _, out.Subject = range subjects {
			if len(subjects) > 1 {
				out.Name = e.Name + ": " + out.Subject
			}
			j.scenario.Expect = append(j.scenario.Expect, out)
		}
	}
}

func (j *judge) figure(f published, path string) {
	m, subject, ok := j.metric(f.Fields, path, f.Metric, f.Subject)
	where, to, about := j.about(f.Fields, path, f.Where, f.RelativeTo)
	value := j.bound(&f.Value, path+".value", m, to != nil)
	if ok && about && value != nil {
		j.scenario.Published = append(j.scenario.Published, Published{Source: f.Source, Metric: m.Name, Subject: subject, Where: where, Value: *value, RelativeTo: to})
	}
}

// bound reads a quantity in the unit of a metric, or a ratio.
func (j *judge) bound(text *yamlfile.Text, path string, m Metric, ratio bool) *float64 {
	if text == nil || m.Name == "" {
		return nil
	}
	v, err := quantity(text.Value, m.Unit, ratio)
	if err != nil {
		j.complain(text.Place, "", "%s: %v", path, err)
		return nil
	}
	return &v
}

func quantity(text string, unit record.Unit, ratio bool) (float64, error) {
	if v, err := strconv.ParseFloat(text, 64); err == nil && v == v && v-v == 0 {
		return v, nil
	}
	if last := len(text) - 1; (ratio || unit == record.Share) && last > 0 && text[last] == '%' {
		v, err := strconv.ParseFloat(text[:last], 64)
		if err == nil && v == v && v-v == 0 {
			return v / 100, nil
		}
	}
	switch {
	case ratio || unit == record.Share:
		return 0, fmt.Errorf("%q is neither a number nor a percentage", text)
	case unit == record.BitPerSecond:
		v, err := units.ParseBitRate(text)
		return float64(v), err
	case unit == record.Seconds:
		v, err := units.ParseDuration(text)
		return v.Seconds(), err
	case unit == record.Bytes:
		v, err := units.ParseByteSize(text)
		return float64(v), err
	}
	return 0, fmt.Errorf("%q is not a number", text)
}

func (j *judge) plot(f figureFile, path string) {
	out := FigureRequest{Name: f.Name, Title: f.Title, X: f.X, Series: f.Series, LogY: f.LogY}
	var m Metric
	if f.Series == "subject" && f.Subject == "" {
		if m = j.known(f.Fields, path, f.Metric); m.Name == Harm {
			j.contended(f.Fields, path)
		}
	} else {
		m, out.Subject, _ = j.metric(f.Fields, path, f.Metric, f.Subject)
	}
	out.Metric = m.Name
	j.axis(f.At("x"), path+".x", f.X, "time", m.Of == OfSeries)
	if f.Series != "" {
		j.axis(f.At("series"), path+".series", f.Series, "subject", m.Of != OfRun)
	}
	if !nodeName.MatchString(f.Name) {
		j.complain(f.At("name"), "", "%s.name: %q is no file name: use letters, digits, - and _, a letter first, 31 at most", path, f.Name)
	}
	if slices.ContainsFunc(j.scenario.Figures, func(have FigureRequest) bool { return have.Name == f.Name }) {
		j.complain(f.At("name"), "", "%s: there is a figure %q already", path, f.Name)
	}
	j.scenario.Figures = append(j.scenario.Figures, out)
}

// axis checks a parameter of a plot. If allowed, word is valid too.
func (j *judge) axis(at yamlfile.Place, path, name, word string, allowed bool) {
	if name == word && allowed || find(j.scenario.raw.parameters, name) != nil {
		return
	}
	names := []string{}
	for _, q := range j.scenario.raw.parameters {
		names = append(names, q.Name)
	}
	if allowed {
		names = append(names, word)
	}
	j.complain(at, "", "%s: unknown parameter %q%s", path, name, listOrHint(name, names))
}

// labels returns the labels of every cell, or a fault if there are too many.
func (s *Scenario) labels() ([]record.Labels, error) {
	if err := s.raw.affordable(); err != nil {
		return nil, err
	}
	return combinations(s.raw.parameters, s.raw.skip), nil
}
