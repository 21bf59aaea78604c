// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"errors"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"weir/internal/fault"
	"weir/internal/infile"
	"weir/internal/nearest"
	"weir/internal/yamlfile"
	"weir/lab/scenarios"
	"weir/record"
)

const (
	tryReference = "correct the file at the places named; docs/formats/scenario.md describes the format"
	tryList      = "list the shipped scenarios with: weir lab list"
)

// checked is a file after its first reading; each cell reads its tree again.
type checked struct {
	tree       *yamlfile.Tree
	filename   string
	head       head
	parameters []parameter
	skip       []skipFile
}

// Load reads a shipped scenario by name, or a file. A name with a dot or a slash is always a file.
func Load(name string) (*Scenario, error) {
	if !strings.ContainsAny(name, "./"+string(filepath.Separator)) {
		if text, err := scenarios.Files.ReadFile(name + ".yaml"); err == nil {
			return Parse(name+".yaml", text)
		}
	}
	text, err := scenarioFile.Read(name)
	if errors.Is(err, fs.ErrNotExist) {
		hint := nearest.Hint(name, names())
		return nil, fault.New(fault.Usage, tryList, "no scenario is shipped as %q, and there is no such file%s", name, hint)
	}
	if err != nil {
		return nil, err
	}
	return Parse(name, text)
}

var scenarioFile = infile.Kind{What: "scenario", Most: yamlfile.MaxFile, Name: tryList, Larger: "split the scenario"}

// Parse reads a scenario from a file's text. Its errors are faults of status Usage that list every
// mistake with its place. Every value of every parameter is checked in one cell; Expand checks all
// cells.
func Parse(filename string, text []byte) (*Scenario, error) {
	tree, err := yamlfile.Parse(filename, text)
	if err != nil {
		return nil, err
	}
	var p yamlfile.Problems
	c := &checked{tree: tree, filename: filename, parameters: readSweep(tree.Root, &p)}
	if node := tree.Root.Get("skip"); node != nil {
		node.Decode("skip", &c.skip, nil, &p)
	}
	if p.Len() > 0 {
		return nil, p.Err(tryReference)
	}
	if err := c.affordable(); err != nil {
		return nil, err
	}
	noParameters(tree.Root, &p)
	c.check(&p)
	if p.Len() > 0 {
		return nil, p.Err(tryReference)
	}
	s := c.scenario(text)
	if err := s.judgeHead(&p); err != nil {
		return nil, err
	}
	return s, p.Err(tryReference)
}

// noParameters rejects ${parameters} in the head, because they have no single value there.
func noParameters(root *yamlfile.Node, p *yamlfile.Problems) {
	body := []string{"hosts", "routers", "links", "routes", "limits", "phases", "sweep"}
	var walk func(n *yamlfile.Node, key string)
	walk = func(n *yamlfile.Node, key string) {
		if strings.Contains(n.Text, "${") {
			p.Add(n.Place, "", "%s: a ${parameter} has no value here; it does in %s", key, strings.Join(body[:6], ", "))
		}
		for _, item := range n.Items {
			walk(item, key)
		}
		for _, e := range n.Entries {
			walk(e.Value, key)
		}
	}
	for _, e := range root.Entries {
		if !slices.Contains(body, e.Key) {
			walk(e.Value, e.Key)
		}
	}
}

// check reads cells until every value of every parameter has occurred: the first cell, then cells
// with a new value.
func (c *checked) check(p *yamlfile.Problems) {
	cells := combinations(c.parameters, c.skip)
	if len(cells) == 0 {
		cells = combinations(c.parameters, nil)[:1] // judgeHead reports it; the rest of the file is still checked
	}
	used, seen := map[string]bool{}, map[[2]string]bool{}
	for i, labels := range cells {
		fresh := record.Labels{}
		for name, value := range labels {
			if key := [2]string{name, value}; !seen[key] {
				seen[key] = true
				fresh[name] = value
			}
		}
		switch {
		case i == 0:
			c.checkOne(labels, "", used, p)
		case len(fresh) > 0:
			c.checkOne(labels, note(fresh), used, p)
		}
	}
	unused(c.parameters, used, p)
}

func (c *checked) checkOne(labels record.Labels, note string, used map[string]bool, p *yamlfile.Problems) {
	var own yamlfile.Problems
	vars := variables(c.parameters, labels, &own)
	f := c.read(vars, &own)
	if note == "" {
		c.head = f.head
	}
	if own.Len() == 0 {
		build(f, labels, &own)
	}
	maps.Copy(used, vars.Used)
	p.Merge(&own, note)
}

// read decodes the file with the variables of one cell.
func (c *checked) read(vars *yamlfile.Variables, p *yamlfile.Problems) *file {
	f := new(file)
	c.tree.Decode(f, vars, p)
	return f
}

// scenario makes the validated form of the head.
func (c *checked) scenario(text []byte) *Scenario {
	h := &c.head
	s := &Scenario{Name: h.Name, Title: h.Title, Description: strings.TrimSpace(h.Description), Source: string(text),
		Seed: h.Seed, Repetitions: 1, Attempts: 3, raw: c}
	if s.Name == "" {
		base := filepath.Base(c.filename)
		s.Name = strings.TrimSuffix(base, filepath.Ext(base))
	}
	if s.Seed == 0 {
		s.Seed = 1
	}
	if h.Repetitions != nil {
		s.Repetitions = *h.Repetitions
	}
	if h.Attempts != nil {
		s.Attempts = *h.Attempts
	}
	s.TimeLimit = time.Duration(h.TimeLimit)
	s.parametersChanged()
	return s
}

// parametersChanged updates the exported copy of the parameters.
func (s *Scenario) parametersChanged() {
	s.Parameters, s.Fallback = nil, nil
	for _, q := range s.raw.parameters {
		if h := s.raw.head.Fallback; h != nil && h.Parameter == q.Name {
			s.Fallback = &Fallback{Parameter: q.Name, Values: q.Values, Within: time.Duration(h.Within)}
		} else {
			s.Parameters = append(s.Parameters, q.Parameter)
		}
	}
}

// Summary is a line of a list of scenarios.
type Summary struct {
	Name, Title string
	Cells       int
	// Solos is the number of runs of single flows per repetition.
	Solos       int
	Repetitions int
	// Traffic is the duration of all phases of all runs, including repetitions, without set-up and
	// calibration.
	Traffic time.Duration
}

// List describes the shipped scenarios, by name.
func List() ([]Summary, error) {
	var all []Summary
	for _, name := range names() {
		s, err := Load(name)
		if err != nil {
			return nil, err
		}
		summary, err := s.Summary()
		if err != nil {
			return nil, err
		}
		all = append(all, summary)
	}
	return all, nil
}

// Summary describes the scenario, including changes by Set.
func (s *Scenario) Summary() (Summary, error) {
	cells, err := s.Expand()
	if err != nil {
		return Summary{}, err
	}
	out := Summary{Name: s.Name, Title: s.Title, Cells: len(cells), Repetitions: s.Repetitions}
	for i := range cells {
		solos := cells[i].Solos()
		out.Solos += len(solos)
		for _, c := range append(solos, cells[i]) {
			for _, phase := range c.Phases {
				out.Traffic += phase.Duration * time.Duration(s.Repetitions)
			}
		}
	}
	return out, nil
}

// Runs is the number of measured runs, including those of single flows.
func (s Summary) Runs() int { return (s.Cells + s.Solos) * s.Repetitions }

func names() []string {
	entries, err := scenarios.Files.ReadDir(".")
	if err != nil {
		return nil
	}
	all := make([]string, 0, len(entries))
	for _, e := range entries {
		all = append(all, strings.TrimSuffix(e.Name(), ".yaml"))
	}
	slices.Sort(all)
	return all
}
