// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"fmt"
	"slices"
	"strings"

	"weir/internal/fault"
	"weir/internal/yamlfile"
	"weir/record"
)

// Expand returns every cell of the sweep, the first parameter changing slowest. A fallback
// parameter has its first value.
func (s *Scenario) Expand() ([]Cell, error) {
	if s.Fallback == nil {
		return s.expand("", "")
	}
	return s.expand(s.Fallback.Parameter, s.Fallback.Values[0])
}

// ExpandWith is Expand with one of the values of the fallback parameter.
func (s *Scenario) ExpandWith(value string) ([]Cell, error) {
	if s.Fallback == nil {
		return nil, fault.New(fault.Usage, "leave the value out", "scenario %s has no fallback parameter", s.Name)
	}
	if !slices.Contains(s.Fallback.Values, value) {
		return nil, fault.New(fault.Usage, "choose one of "+strings.Join(s.Fallback.Values, ", "), "%q is not a value of %q", value, s.Fallback.Parameter)
	}
	return s.expand(s.Fallback.Parameter, value)
}

// expand makes the cells in which a parameter has a value; no name makes all.
func (s *Scenario) expand(name, value string) ([]Cell, error) {
	labels, err := s.labels()
	if err != nil {
		return nil, err
	}
	var p yamlfile.Problems
	cells := make([]Cell, 0, len(labels))
	routes := map[string][]Route{}
	for _, l := range labels {
		if name != "" && l[name] != value {
			continue
		}
		var own yamlfile.Problems
		f := s.raw.read(variables(s.raw.parameters, l, &own), &own)
		if own.Len() == 0 {
			var cell *Cell
			var n *network
			if cell, n = build(f, l, &own); own.Len() == 0 {
				cell.Routes = sharedRoutes(routes, n)
				cells = append(cells, *cell)
			}
		}
		p.Merge(&own, note(l))
	}
	if p.Len() > 0 {
		return nil, p.Err(tryReference)
	}
	if len(cells) == 0 {
		return nil, fault.New(fault.Usage, "skip less, or set other values", "scenario %s: the sweep leaves no cell", s.Name)
	}
	return cells, nil
}

// sharedRoutes returns the routes of a network. Cells of one topology, as nearly all are, have the
// same slice.
func sharedRoutes(have map[string][]Route, n *network) []Route {
	key := fmt.Sprint(n.next)
	for _, l := range n.links {
		key += "\n" + l.Name + " " + l.A + " " + l.B
	}
	if _, known := have[key]; !known {
		have[key] = n.routes()
	}
	return have[key]
}

// note says which cell a mistake is in.
func note(labels record.Labels) string {
	if len(labels) == 0 {
		return ""
	}
	words := make([]string, 0, len(labels))
	for name, value := range labels {
		words = append(words, name+"="+value)
	}
	slices.Sort(words)
	return " (with " + strings.Join(words, ", ") + ")"
}

// SetRepetitions sets how often each cell is measured: 1 to MaxRepetitions. An error leaves the
// scenario unchanged.
func (s *Scenario) SetRepetitions(n int) error {
	if n < 1 || n > MaxRepetitions {
		return fault.New(fault.Usage, tryRange(1, MaxRepetitions), "%d repetitions is outside 1 to %d", n, MaxRepetitions)
	}
	s.Repetitions = n
	return nil
}

// Set gives a parameter of the sweep, or the fallback parameter, other values: --set loss=1%,2%.
// Where the file names the values (a mapping), only those may be chosen. Expectations and published
// figures that no cell matches any more are left out. An error leaves the scenario unchanged.
func (s *Scenario) Set(param string, values []string) error {
	q := find(s.raw.parameters, param)
	if q == nil {
		_, mistake := resolve(s.raw.parameters, param, "")
		return fault.New(fault.Usage, "see the parameters with: weir lab show "+s.Name, "%s", mistake)
	}
	chosen := make([]string, 0, len(values))
	for _, v := range values {
		spelled, mistake := resolve(s.raw.parameters, param, v)
		switch {
		case mistake == "":
			v = spelled
		case q.variants != nil:
			return fault.New(fault.Usage, "choose among "+strings.Join(q.Values, ", "), "%s", mistake)
		}
		if v = strings.TrimSpace(v); v == "" {
			return fault.New(fault.Usage, "write it as name=value,value", "parameter %q: an empty value", param)
		}
		if !slices.Contains(chosen, v) {
			chosen = append(chosen, v)
		}
	}
	if len(chosen) == 0 {
		return fault.New(fault.Usage, "write it as name=value,value", "parameter %q: no value is given", param)
	}
	return s.set(q, chosen)
}

func (s *Scenario) set(q *parameter, values []string) error {
	before := q.Values
	q.Values = values
	var p yamlfile.Problems
	labels, err := s.labels()
	if err == nil {
		s.raw.check(&p)
		err = p.Err(fmt.Sprintf("choose other values of %s; it had %s", q.Name, strings.Join(before, ", ")))
	}
	if err == nil && len(labels) == 0 {
		err = fault.New(fault.Usage, fmt.Sprintf("set values of %s that \"skip\" in the file leaves; it had %s", q.Name, strings.Join(before, ", ")),
			"parameter %q: the sweep leaves no cell", q.Name)
	}
	if err != nil {
		q.Values = before
		return err
	}
	s.parametersChanged()
	s.Expect = slices.DeleteFunc(s.Expect, func(e Expectation) bool { return !applies(labels, e.Where, e.RelativeTo) })
	s.Published = slices.DeleteFunc(s.Published, func(f Published) bool { return !applies(labels, f.Where, f.RelativeTo) })
	return nil
}
