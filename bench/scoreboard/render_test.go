// SPDX-License-Identifier: Apache-2.0

package scoreboard

import (
	"fmt"
	"strings"
)

const head = `<!-- Generated from published.yaml by go generate ./bench/scoreboard. -->
# Published results and Weir's

Each figure comes from an evidence bundle in this folder, or from a document here if its bundle was
not kept, with the command beside it. A test computes or finds each figure. Bundle and document have
machine, date and conditions. A row without a figure names the requirement of a measurement. A row
marks a reason without an experiment.

`

// Render returns the document.
func (b Board) Render() string {
	var out strings.Builder
	out.WriteString(head)
	counts := map[string]int{}
	for _, row := range b.Rows {
		counts[row.Verdict]++
	}
	out.WriteString("| verdict | rows |\n| --- | --- |\n")
	for _, v := range verdicts {
		fmt.Fprintf(&out, "| %s | %d |\n", v, counts[v])
	}
	fmt.Fprintf(&out, "| all | %d |\n", len(b.Rows))
	for i, row := range b.Rows {
		if i == 0 || row.Source != b.Rows[i-1].Source {
			fmt.Fprintf(&out, "\n## %s\n\n", heading(row.Source))
			out.WriteString("| # | published | Weir | 95 % interval | command | kernel | verdict |\n| --- | --- | --- | --- | --- | --- | --- |\n")
		}
		b.row(&out, i+1, row)
	}
	return out.String()
}

func (b Board) row(out *strings.Builder, n int, row Row) {
	verdict := "**" + row.Verdict + "**"
	if row.Why != "" {
		verdict += ": " + row.Why
	}
	for _, tried := range row.Tried {
		run := b.Runs[tried.Run]
		verdict += fmt.Sprintf(". Tried by %s, %s ([%s](%s)). %s", code(run.Command), run.Kernel, run.Bundle, run.Bundle, tried.found)
	}
	weir, interval, command, kernel := "–", "–", "–", "–"
	if run, measured := b.Runs[row.Run]; measured {
		source := run.Document
		if len(row.Figures) > 0 {
			source = run.Bundle
		}
		weir, interval = fmt.Sprintf("%s ([%s](%s))", row.Weir, source, source), row.Interval
		command, kernel = code(run.Command), run.Kernel
	}
	fmt.Fprintf(out, "| %d | %s | %s | %s | %s | %s | %s |\n", n, row.Published, weir, interval, command, kernel, verdict)
}

// code formats a command for a cell of a table.
func code(command string) string { return "`" + strings.ReplaceAll(flat(command), "|", `\|`) + "`" }

// heading capitalises the first letter.
func heading(source string) string { return strings.ToUpper(source[:1]) + source[1:] }
