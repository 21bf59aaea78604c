// SPDX-License-Identifier: Apache-2.0

package tables

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"weir/core/daemon"
	"weir/core/doctor"
	"weir/core/module"
	"weir/core/policy"
	"weir/core/prove"
	"weir/internal/fault"
	"weir/internal/yamlfile"
	"weir/lab/link"
	"weir/lab/scenario"
	"weir/modules"
	"weir/tester/spec"
)

// tables returns all generated tables.
func tables() ([]table, error) {
	of := modules.All()
	language, err := modules.Language(of)
	if err != nil {
		return nil, err
	}
	shipped, err := scenarios()
	if err != nil {
		return nil, err
	}
	all := append(policyTables(language), proveTables(of)...)
	all = append(all, scenarioTables()...)
	all = append(all, shipped)
	all = append(all, testerTables()...)
	all = append(all, metricTables(of)...)
	return append(all, statuses(), capabilities(of), features()), nil
}

func code(text string) string { return "`" + text + "`" }

func codes(words []string) string {
	all := make([]string, len(words))
	for i, w := range words {
		all[i] = code(w)
	}
	return strings.Join(all, ", ")
}

// lower returns text with a lower-case first letter, except for abbreviations and names.
func lower(text string) string {
	first, size := utf8.DecodeRuneInString(text)
	word, _, _ := strings.Cut(text[size:], " ")
	if strings.ContainsFunc(word, func(r rune) bool { return unicode.IsUpper(r) || unicode.IsDigit(r) }) {
		return text
	}
	return string(unicode.ToLower(first)) + text[size:]
}

// meaning returns the description of a key in a table.
func meaning(r yamlfile.Reference) string {
	text := lower(r.Doc)
	if len(r.Values) > 0 {
		text = codes(r.Values) + ": " + text
	}
	if r.Required {
		text = "required; " + text
	}
	return text
}

// keys returns a table of keys.
func keys(page, name string, all []yamlfile.Reference) table {
	t := table{page, name, []string{"key", "meaning"}, nil}
	for _, r := range all {
		t.rows = append(t.rows, []string{code(r.Path), meaning(r)})
	}
	return t
}

func policyTables(language *policy.Language) []table {
	const page = "policy.md"
	file, scope := language.References()
	selectors := table{page, "selectors", []string{"key", "traffic"}, nil}
	for _, k := range language.Selectors() {
		selectors.rows = append(selectors.rows, []string{code(k.Key), lower(strings.TrimSuffix(k.Doc, "."))})
	}
	byModule := func(name string, all []policy.Reference) table {
		t := table{page, name, []string{"key", "module", "meaning"}, nil}
		for _, r := range all {
			t.rows = append(t.rows, []string{code(r.Path), r.Module, meaning(r.Reference)})
		}
		return t
	}
	top := slices.DeleteFunc(slices.Clone(file), func(r policy.Reference) bool { return strings.Contains(r.Path, ".") })
	section := func(name string) table {
		var all []yamlfile.Reference
		for _, r := range file {
			if strings.HasPrefix(r.Path, name+".") {
				all = append(all, r.Reference)
			}
		}
		return keys(page, name, all)
	}
	return []table{selectors, byModule("keys", top), byModule("scope", scope), section("offload"), section("links"), section("borders")}
}

func proveTables(all []module.Module) []table {
	const page = "prove.md"
	checks := table{page, "checks", []string{"module", "check", "of", "flow or inspection", "`holds` if"}, nil}
	for _, r := range all {
		if j, judges := r.(module.Judge); judges {
			for _, one := range j.Judges() {
				checks.rows = append(checks.rows, []string{code(r.Name()), one.Check, one.Of, one.Looks, one.Holds})
			}
		}
	}
	described := func(name, column string, all []prove.Described, mark func(string) string) table {
		t := table{page, name, []string{column, "meaning"}, nil}
		for _, d := range all {
			t.rows = append(t.rows, []string{mark(d.Name), d.Meaning})
		}
		return t
	}
	plain := func(s string) string { return s }
	bypasses := described("bypasses", "bypass", prove.Bypasses(all), plain)
	bypasses.columns[1] = "how it is tried"
	return []table{checks, described("verdicts", "verdict", prove.Verdicts(), code), bypasses, described("states", "state", prove.States(), code)}
}

func scenarioTables() []table {
	const page = "scenario.md"
	all := scenario.References()
	below := func(name, path string) table { return keys(page, name, yamlfile.Below(all, path)) }
	loss := keys(page, "loss models", nil)
	for _, r := range all {
		if rest, is := strings.CutPrefix(r.Path, "links.loss."); is {
			above, key := rest[:strings.LastIndex(rest, ".")+1], rest[strings.LastIndex(rest, ".")+1:]
			name := code(key)
			if above != "" {
				name = "of " + code(strings.TrimSuffix(above, ".")) + ": " + name
			}
			loss.rows = append(loss.rows, []string{name, meaning(r)})
		}
	}
	disciplines := table{page, "disciplines", []string{"discipline", "meaning", "`target`", "`interval`", "frames"}, nil}
	for _, d := range link.Disciplines() {
		frames := "its own, in octets"
		if n := d.Packets(); n > 0 {
			frames = strconv.Itoa(n)
		}
		disciplines.rows = append(disciplines.rows, []string{code(string(d)), d.Meaning(), d.Target().String(), d.Interval().String(), frames})
	}
	mechanisms := table{page, "mechanisms", []string{"mechanism", "meaning"}, nil}
	for _, m := range scenario.Mechanisms() {
		mechanisms.rows = append(mechanisms.rows, []string{code(string(m)), m.Meaning()})
	}
	metrics := table{page, "metrics", []string{"metric", "unit", "of", "meaning"}, nil}
	for _, m := range scenario.Metrics() {
		metrics.rows = append(metrics.rows, []string{code(m.Name), fmt.Sprint(m.Unit), string(m.Of), m.Meaning})
	}
	return []table{below("experiment", ""), loss, disciplines, mechanisms, below("streams", "phases.streams"), below("procedure", "phases.procedure"),
		below("expect", "expect"), metrics}
}

// scenarios returns the table of the built-in scenarios.
func scenarios() (table, error) {
	t := table{"scenario.md", "scenarios", []string{"name", "title", "cells × repetitions", "time of traffic"}, nil}
	all, err := scenario.List()
	if err != nil {
		return t, err
	}
	for _, s := range all {
		runs := fmt.Sprintf("%d × %d", s.Cells, s.Repetitions)
		if s.Solos > 0 {
			runs += fmt.Sprintf(", and %d × %d of one flow alone", s.Solos, s.Repetitions)
		}
		t.rows = append(t.rows, []string{code(s.Name), s.Title, runs, strings.Replace(s.Traffic.Round(time.Second).String(), "m0s", "m", 1)})
	}
	return t, nil
}

func testerTables() []table {
	const page = "tester.md"
	all := spec.References()
	below := func(name, path string) table { return keys(page, name, yamlfile.Below(all, path)) }
	metrics := table{page, "metrics", []string{"metric", "unit", "meaning"}, nil}
	for _, m := range spec.Metrics() {
		metrics.rows = append(metrics.rows, []string{code(m.Name), fmt.Sprint(m.Unit), m.Meaning})
	}
	return []table{below("keys", ""), below("ports", "ports.NAME"), below("streams", "streams"), below("modifiers", "streams.modifiers"), below("expect", "expect"), metrics}
}

func metricTables(of []module.Module) (all []table) {
	for _, r := range of {
		t := table{"metrics.md", r.Name(), []string{"metric", "type", "labels", "meaning"}, nil}
		for _, m := range daemon.Describe(r) {
			t.rows = append(t.rows, []string{code(m.Name), m.Type, codes(m.Labels), lower(strings.TrimSuffix(m.Help, "."))})
		}
		all = append(all, t)
	}
	return all
}

func statuses() table {
	t := table{"errors.md", "statuses", []string{"status", "meaning"}, nil}
	words := fault.Statuses()
	var numbers []fault.Status
	for s := range words {
		numbers = append(numbers, s)
	}
	slices.Sort(numbers)
	for _, s := range numbers {
		t.rows = append(t.rows, []string{strconv.Itoa(int(s)), words[s]})
	}
	return t
}

func capabilities(of []module.Module) table {
	t := table{"doctor.md", "capabilities", []string{"name", "mechanism, where the kernel has all"}, nil}
	for _, c := range doctor.Describe(of) {
		t.rows = append(t.rows, []string{code(c.Name), c.Mechanism})
	}
	return t
}

func features() table {
	t := table{"doctor.md", "features", []string{"group", "names"}, nil}
	groups, names := doctor.Groups()
	for _, group := range groups {
		t.rows = append(t.rows, []string{code(group), codes(names[group])})
	}
	return t
}
