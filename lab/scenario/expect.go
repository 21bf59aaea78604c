// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"fmt"
	"maps"
	"slices"
	"strconv"

	"weir/internal/nearest"
	"weir/internal/units"
	"weir/internal/yamlfile"
	"weir/lab/expect"
	"weir/lab/traffic"
	"weir/record"
)

// MaxRepetitions is how often a cell may be measured.
const MaxRepetitions = 1000

const maxAttempts = 20

// tryRange is the advice for a number that lies outside its bounds.
func tryRange(least, most int) string {
	return fmt.Sprintf("write a number from %d to %d", least, most)
}

// judge checks the head against the cells that there are.
type judge struct {
	scenario *Scenario
	problems *yamlfile.Problems
	labels   []record.Labels
	cell     *Cell // the first one, for its subjects
}

// judgeHead reads what speaks about results: expectations, published figures and plots.
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
	if h.Fallback != nil && len(h.Fallback.Values) == 0 {
		j.complain(h.Fallback.At("values"), "", "fallback.values: no value is given")
	}
}

// known looks a metric up; it has no name if there is none such.
func (j *judge) known(f yamlfile.Fields, path, name string) Metric {
	m, known, near := FindMetric(name)
	if !known {
		hint := ""
		if near != "" {
			hint = fmt.Sprintf(" (did you mean %q?)", near)
		}
		j.complain(f.At("metric"), "docs/formats/scenario.md lists the metrics", "%s.metric: unknown metric %q%s", path, name, hint)
	}
	return m
}

// metric looks a metric up and settles whose figure is meant.
func (j *judge) metric(f yamlfile.Fields, path, name, subject string) (Metric, string, bool) {
	m := j.known(f, path, name)
	if m.Name == "" {
		return m, "", false
	}
	candidates := j.subjects(m)
	switch {
	case m.Name == Harm && len(candidates) == 0:
		j.contended(f, path)
	case subject == "" && len(candidates) == 0:
		j.complain(f.At("metric"), "", "%s.metric: no flow of the scenario has a %s", path, name)
	case subject == "" && len(candidates) > 1 && candidates[0] != Aggregate:
		j.complain(f.Self, "add a subject", "%s: %q is a figure of each of several; say which by subject: %s", path, name, quoted(candidates))
	case subject == "":
		return m, candidates[0], true
	case !slices.Contains(candidates, subject):
		j.complain(f.At("subject"), "", "%s.subject: %q has no %s%s", path, subject, name, subjectHint(subject, candidates))
	default:
		return m, subject, true
	}
	return m, "", false
}

const trySolo = "add \"solo: true\" to the phase whose flows contend"

// contended complains where no flow of the scenario has a harm.
func (j *judge) contended(f yamlfile.Fields, path string) {
	if !slices.ContainsFunc(j.cell.Phases, func(p Phase) bool { return p.Solo }) {
		j.complain(f.At("metric"), trySolo, "%s.metric: %s compares a flow with a run of the flow alone, and no phase asks for such runs", path, Harm)
	}
}

func subjectHint(subject string, candidates []string) string {
	if hint := nearest.Hint(subject, candidates); hint != "" {
		return hint
	}
	return "; these do: " + quoted(candidates)
}

func quoted(list []string) string {
	out := ""
	for i, s := range list {
		if i > 0 {
			out += ", "
		}
		out += strconv.Quote(s)
	}
	return out
}

// subjects lists what has a figure of the metric in this scenario; the first is meant where the
// file names none.
func (j *judge) subjects(m Metric) (all []string) {
	if m.Of == OfRun || slices.Contains([]string{Goodput, RetransmitShare, LossEventRate}, m.Name) {
		all = append(all, Aggregate)
	}
	if m.Of == OfRun {
		return all
	}
	if m.Of == OfLink || m.Name == SeriesQueue {
		for _, l := range j.cell.Links {
			if !l.Plain {
				all = append(all, LinkSubject(l.Name, false), LinkSubject(l.Name, true))
			}
		}
		return all
	}
	if m.Of == OfLimit {
		for _, l := range j.cell.Limits {
			all = append(all, l.Name)
		}
		return all
	}
	for _, phase := range j.cell.Phases {
		if m.Name == Harm && !phase.Solo {
			continue
		}
		if m.Of == OfProcedure {
			if phase.Procedure != nil {
				all = append(all, phase.Procedure.Name)
			}
			continue
		}
		for _, f := range phase.Flows {
			if m.Of != OfStream && (m.kinds() == nil || slices.Contains(m.kinds(), f.Kind)) {
				all = append(all, f.Name)
			}
		}
		for _, s := range phase.Streams {
			if m.Of == OfStream {
				all = append(all, s.Name)
			}
		}
	}
	return all
}

// kinds returns the kinds of flow that have a metric; nil is all.
func (m Metric) kinds() []traffic.Kind {
	switch m.Name {
	case ExchangesPerSecond, ExchangeGoodput, ExchangeP50, ExchangeP99, ExchangeP999:
		return []traffic.Kind{traffic.Request}
	case UDPLoss, UDPDuplicates, UDPReordered:
		return []traffic.Kind{traffic.Datagram}
	case Goodput, FlowShare, Harm, SeriesRate:
		return []traffic.Kind{traffic.Bulk, traffic.Datagram, traffic.Program}
	case Completion:
		return []traffic.Kind{traffic.Bulk, traffic.Program}
	case PredictedMathis, PredictedPFTK, PredictedCUBIC, PredictedRatio, ResidualMathis, ResidualPFTK, ResidualCUBIC,
		CubicRegion, WindowLimited:
		return []traffic.Kind{traffic.Bulk}
	}
	return []traffic.Kind{traffic.Bulk, traffic.Request}
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

// applies says whether some cell has the labels, and a counterpart with the other ones.
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

func (j *judge) expectation(e expectFile, path string) {
	m, subject, ok := j.metric(e.Fields, path, e.Metric, e.Subject)
	where, to, about := j.about(e.Fields, path, e.Where, e.RelativeTo)
	if m.Of == OfSeries && ok {
		j.complain(e.At("metric"), "", "%s.metric: %q is a time series; an expectation needs a single figure", path, m.Name)
	}
	out := Expectation{Name: e.Name, Metric: m.Name, Subject: subject, Where: where, RelativeTo: to}
	out.Statement = e.Read(&expect.Draft{Path: path, Place: e.Self, Complain: j.complain,
		Quantity: func(text *yamlfile.Text, path string) *float64 { return j.bound(text, path, m, to != nil) }})
	if ok && about {
		j.scenario.Expect = append(j.scenario.Expect, out)
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

// axis checks a parameter of a plot, or the one other word that has a meaning there.
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

// labels returns the labels of every cell, or a fault where they are too many.
func (s *Scenario) labels() ([]record.Labels, error) {
	if err := s.raw.affordable(); err != nil {
		return nil, err
	}
	return combinations(s.raw.parameters, s.raw.skip), nil
}
