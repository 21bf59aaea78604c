// SPDX-License-Identifier: Apache-2.0

// Package report renders a bundle as one HTML page that opens offline: no script, no reference to
// the network, drawings inside. A content security policy in the page forbids everything else, and
// every text from a user is escaped.
package report

import (
	"bytes"
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"weir/record"
	"weir/record/figures"
	"weir/record/plot"
	"weir/record/summary"
)

//go:embed report.html.tmpl
var page string

//go:embed report.css
var css string

const (
	figureLimit  = 8   // drawn time lines, and distributions, beside the bundle's own figures
	rowLimit     = 400 // rows of the table of all results
	attemptLimit = 40  // listed attempts, rejected ones and others
	pointLimit   = 60  // points of a curve up to which a figure's values are also a table
)

// Report is a bundle with the figures of its report.
type Report struct {
	Figures []record.Figure // those of the bundle, then time series and distributions; names are unique and valid for files
	Omitted int             // number of omitted time series and distributions

	bundle *record.Bundle
}

// New prepares the report of a bundle, which must not change before it is written.
func New(b *record.Bundle) *Report {
	r := &Report{bundle: b}
	r.Figures, r.Omitted = figures.All(b, figureLimit)
	return r
}

// Write renders the report.
func (r *Report) Write(w io.Writer) error {
	functions := template.FuncMap{"outcome": outcomeClass, "labels": summary.Text}
	parsed, err := template.New("report").Funcs(functions).Parse(page)
	if err != nil {
		return fmt.Errorf("parse report template: %w", err)
	}
	if err := parsed.Execute(w, r.content()); err != nil {
		return fmt.Errorf("render report: %w", err)
	}
	return nil
}

// content is the input of the template.
type content struct {
	Style      template.CSS
	Manifest   record.Manifest
	Verdicts   []record.Verdict
	Headline   string
	Class      string   // outcome class of the headline
	Figures    []figure // the bundle's own
	Details    []figure // time series and distributions
	Omitted    int
	Tables     []record.Table
	Results    record.Table
	Cut        int // number of hidden result rows
	Proofs     []string
	MoreProofs int
	Rejected   []string
	MoreReject int
	Machine    [][2]string
	Mechanisms [][2]string
	Parameters [][2]string
	Command    string
	Rerun      string // command to repeat a lab run
	Started    string
	Took       string
}

// figure is a drawing and its values.
type figure struct {
	record.Figure
	Drawing template.HTML // from package plot, which escapes all text
	Values  *record.Table
}

func (r *Report) content() *content {
	b, m := r.bundle, r.bundle.Manifest
	c := &content{Style: template.CSS(css), Manifest: m, Verdicts: b.Verdicts, Tables: b.Tables, Command: shell(m.Command),
		Mechanisms: pairs(m.Mechanisms), Parameters: pairs(m.Parameters), Machine: machine(m.Machine)}
	c.Headline, c.Class = headline(b.Verdicts)
	c.Omitted = r.Omitted
	if m.Kind == "lab" {
		c.Rerun = "weir lab rerun BUNDLE   # the folder of this report"
	}
	for i, f := range r.Figures {
		drawing, err := inline(f)
		if err != nil { // must not lose the rest of the report
			drawing = template.HTML("<p>" + template.HTMLEscapeString("This figure cannot be drawn: "+err.Error()) + "</p>")
		}
		drawn := figure{Figure: f, Drawing: drawing, Values: values(f)}
		if i < len(b.Figures) {
			c.Figures = append(c.Figures, drawn)
		} else {
			c.Details = append(c.Details, drawn)
		}
	}
	rows := summary.Rows(b.Samples)
	if len(rows) > rowLimit {
		c.Cut = len(rows) - rowLimit
		rows = rows[:rowLimit]
	}
	c.Results = summary.Table("All results", rows)
	c.Proofs, c.MoreProofs = proofs(b.Proofs)
	c.Rejected, c.MoreReject = rejected(b.Samples)
	if !m.Started.IsZero() {
		c.Started = m.Started.UTC().Format("2006-01-02 15:04:05 UTC")
		c.Took = m.Finished.Sub(m.Started).Round(time.Second).String()
	}
	return c
}

// inline draws a figure for use inside HTML.
func inline(f record.Figure) (template.HTML, error) {
	var b bytes.Buffer
	if err := plot.SVG(&b, f); err != nil {
		return "", err
	}
	_, drawing, _ := strings.Cut(b.String(), "?>") // HTML has no XML declaration
	return template.HTML(drawing), nil
}

// headline summarises the outcome of all expectations in one sentence.
func headline(verdicts []record.Verdict) (text, class string) {
	count := map[record.Outcome]int{}
	for _, v := range verdicts {
		count[v.Outcome]++
	}
	n := len(verdicts)
	switch {
	case n == 0:
		return "No expectations were stated.", "none"
	case count[record.Holds] == n:
		return fmt.Sprintf("%s.", all(n)), "holds"
	}
	var parts []string
	if k := count[record.Fails]; k > 0 {
		parts = append(parts, fmt.Sprintf("%d of %d expectations %s not hold", k, n, verb(k, "does", "do")))
	}
	if k := count[record.NotMeasured]; k > 0 {
		parts = append(parts, fmt.Sprintf("%d of %d could not be measured", k, n))
	}
	class = "unmeasured"
	if count[record.Fails] > 0 {
		class = "fails"
	}
	return strings.Join(parts, ", ") + ".", class
}

func all(n int) string {
	if n == 1 {
		return "The expectation holds"
	}
	return fmt.Sprintf("All %d expectations hold", n)
}

func verb(n int, one, many string) string {
	if n == 1 {
		return one
	}
	return many
}

// outcomeClass returns the style class of an outcome.
func outcomeClass(o record.Outcome) string {
	switch o {
	case record.Holds:
		return "holds"
	case record.NotMeasured:
		return "unmeasured"
	}
	return "fails"
}

// pairs lists a map in order of its keys.
func pairs(m map[string]string) [][2]string {
	var list [][2]string
	for _, key := range slices.Sorted(maps.Keys(m)) {
		list = append(list, [2]string{key, m[key]})
	}
	return list
}
