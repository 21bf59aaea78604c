// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"weir/cmd/weir/cli"
	"weir/core/prove"
	"weir/record"
	"weir/record/bundle"
)

// proveResult is the document of weir prove --format json.
type proveResult struct {
	*prove.Result
	Bundle string `json:"bundle,omitempty"`
}

// printProof writes the evidence if requested and prints the results.
func printProof(a *cli.App, r *prove.Result, options prove.Options, o proveOptions) error {
	b := r.Bundle()
	b.Manifest.Parameters = map[string]string{"duration": o.duration.String(), "repetitions": fmt.Sprint(o.repetitions)}
	if o.scope != "" {
		b.Manifest.Parameters["scope"] = o.scope
	}
	if err := a.Keep(&b, o.out); err != nil {
		return err
	}
	if o.junit != "" {
		if err := cli.WriteTo(o.junit, func(w io.Writer) error { return bundle.WriteJUnit(w, &b) }); err != nil {
			return err
		}
	}
	if a.Format == "json" {
		return a.JSON(proveResult{r, o.out})
	}
	b.Verdicts = nil // the tables contain them; details follow below
	b.Manifest.Notes = append(b.Manifest.Notes, reasons(r.Rows)...)
	for _, one := range r.Inspections {
		if one.Reason != "" {
			b.Manifest.Notes = append(b.Manifest.Notes, fmt.Sprintf("%s, %s: %s: %s", one.Module, one.Check, one.Verdict, one.Reason))
		}
		b.Manifest.Notes = append(b.Manifest.Notes, one.Examples...)
	}
	if err := a.PrintBundle(b, o.out); err != nil {
		return err
	}
	_, err := fmt.Fprintln(a.Stdout, "Result: "+inAll(r))
	return err
}

// reasons returns the reasons of verdicts; for untested rows once for all paths.
func reasons(rows []prove.Row) (notes []string) {
	for _, row := range rows {
		name := row.Name()
		if row.Verdict == prove.Members || row.Verdict == prove.Shadow {
			name = row.Scope
		}
		if note := fmt.Sprintf("%s: %s: %s", name, row.Verdict, row.Reason); row.Reason != "" && !slices.Contains(notes, note) {
			notes = append(notes, note)
		}
	}
	return notes
}

// inAll counts the verdicts of promises and of bypasses.
func inAll(r *prove.Result) string {
	promises := counted((&prove.Result{Rows: r.Rows, Inspections: r.Inspections}).Bundle().Verdicts, "hold", "fail")
	bypasses := countedBypasses(r.Bypasses)
	if promises = "of promises " + promises; promises == "of promises " {
		promises = "nothing was promised"
	}
	if bypasses != "" {
		return promises + "; of bypasses " + bypasses
	}
	return promises
}

// countedBypasses counts bypasses by state. A possible bypass is not closed, even if no traffic
// used it.
func countedBypasses(all []prove.Bypass) string {
	words := map[prove.State]string{prove.Covered: "closed", prove.CanEscape: "can be taken", prove.Slowed: "slowed", prove.Escapes: "taken", prove.Unknown: "unknown"}
	count := map[prove.State]int{}
	for _, b := range all {
		count[b.State]++
	}
	var parts []string
	for _, state := range []prove.State{prove.Covered, prove.CanEscape, prove.Slowed, prove.Escapes, prove.Unknown} {
		if n := count[state]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, words[state]))
		}
	}
	return strings.Join(parts, ", ")
}

// counted counts verdicts, with words for those that hold and those that do not.
func counted(verdicts []record.Verdict, holds, fails string) string {
	count := map[record.Outcome]int{}
	for _, v := range verdicts {
		count[v.Outcome]++
	}
	var parts []string
	for _, outcome := range []record.Outcome{record.Holds, record.Fails, record.NotMeasured} {
		if n := count[outcome]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, map[record.Outcome]string{record.Holds: holds, record.Fails: fails,
				record.NotMeasured: "unknown"}[outcome]))
		}
	}
	return strings.Join(parts, ", ")
}

// proveDry is the document of weir prove --dry-run --format json.
type proveDry struct {
	Format   string        `json:"format"`
	Duration time.Duration `json:"duration_ns"`
	Tests    []provePlan   `json:"tests"`
	Inspects []string      `json:"inspects,omitempty"` // modules that inspect their effect on the host
}

type provePlan struct {
	Scope     string `json:"scope"`
	Module    string `json:"module"`
	Check     string `json:"check"`
	Direction string `json:"direction"`
	Path      string `json:"path"`
	Promised  string `json:"promised"`
	From      string `json:"from"`
	To        string `json:"to"`
	Sends     string `json:"sends"`
	Skipped   string `json:"skipped,omitempty"`
}

// printPlan lists the tests.
func printPlan(a *cli.App, options prove.Options) error {
	tests, err := options.Plan(prove.IPv6())
	if err != nil {
		return err
	}
	doc := proveDry{Format: "weir-prove-plan/3", Duration: options.Takes(tests)}
	table := record.Table{Title: "Would be sent", Columns: []string{"scope", "check", "direction", "path", "promised", "from", "to", "sends"},
		Note: fmt.Sprintf("%d times each, about %s in all.", options.Repetitions, doc.Duration.Round(time.Second))}
	if options.Scope == "" {
		if doc.Inspects, err = options.Engine.Inspectors(); err != nil {
			return err
		}
	}
	if len(doc.Inspects) > 0 {
		table.Note += " Effects on the host are inspected too: " + strings.Join(doc.Inspects, ", ") + "."
	}
	for _, t := range tests {
		doc.Tests = append(doc.Tests, planOf(options, t))
	}
	table.Rows = dryRows(doc.Tests)
	if a.Format == "json" {
		return a.JSON(doc)
	}
	return a.Table(table)
}

func planOf(o prove.Options, t prove.Test) provePlan {
	p := provePlan{Scope: t.Scope.Name, Module: t.Module, Check: t.Check.Name, Direction: t.Check.Direction.String(), Path: t.Path.String(), Promised: t.Check.Promised(),
		From: t.From(), To: t.To(), Sends: o.Sends(t)}
	if t.Skip != "" {
		p.Skipped, p.Sends = t.Reason, "nothing: "+t.Reason
	}
	return p
}

// dryRows lists skipped tests once for all paths.
func dryRows(tests []provePlan) (rows [][]string) {
	for _, p := range tests {
		row := []string{p.Scope, p.Check, p.Direction, p.Path, p.Promised, p.From, p.To, p.Sends}
		if p.Skipped != "" {
			row[3], row[5], row[6] = "", "", ""
		}
		if n := len(rows); n == 0 || !slices.Equal(rows[n-1], row) {
			rows = append(rows, row)
		}
	}
	return rows
}
