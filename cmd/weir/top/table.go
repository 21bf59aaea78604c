// SPDX-License-Identifier: Apache-2.0

package top

import (
	"strings"

	"charm.land/lipgloss/v2"
	"github.com/mattn/go-runewidth"

	"weir/cmd/weir/view"
)

const (
	barWidth  = 10
	nameWidth = 28 // longer names and selectors are cut
)

var (
	bold   = lipgloss.NewStyle().Bold(true)
	dim    = lipgloss.NewStyle().Faint(true)
	filled = lipgloss.NewStyle().Foreground(lipgloss.Color("6"))
	full   = lipgloss.NewStyle().Foreground(lipgloss.Color("3"))
	alarm  = lipgloss.NewStyle().Foreground(lipgloss.Color("1"))
)

// table returns the header, one line for each row, and the module's notes.
func (r topModule) table() []string {
	header := topHeader(r.status)
	cells, widths := make([][]string, len(r.Rows)), make([]int, len(header))
	for i, name := range header {
		widths[i] = runewidth.StringWidth(name)
	}
	last := len(header) - 1
	for i, row := range r.Rows {
		cells[i] = row.cells(r.status)
		for column, cell := range cells[i] {
			if column != last { // the last column may use the rest of the line
				cells[i][column] = runewidth.Truncate(cell, nameWidth, "…")
			}
			widths[column] = max(widths[column], runewidth.StringWidth(cells[i][column]))
		}
	}
	styles := r.styles(widths)
	for column, name := range header {
		header[column] = styles[column].pad(name, widths[column])
		if styles[column].share {
			header[column] += strings.Repeat(" ", barWidth+1)
		}
	}
	lines := []string{bold.Render(strings.TrimRight(strings.Join(header, "  "), " "))}
	for i, row := range r.Rows {
		lines = append(lines, row.line(cells[i], widths, styles))
	}
	if len(r.status.Notes) > 0 {
		lines = append(lines, "")
	}
	for _, note := range r.status.Notes {
		lines = append(lines, dim.Render(note))
	}
	return lines
}

// columnStyle is the style of a column in the live view.
type columnStyle struct {
	name  bool // aligned to the left, as figures are to the right
	share bool // with a bar
	state bool
	alarm string // name of a column with values above 0 in red; "" for none
}

func (r topModule) styles(widths []int) []columnStyle {
	var all []columnStyle
	for range view.Lead(r.status) {
		all = append(all, columnStyle{name: true})
	}
	for _, c := range topColumns(r.status.Columns) {
		style := columnStyle{share: c.share}
		if c.of.Alarm && !c.share {
			style.alarm = c.of.Name
		}
		if c.share {
			widths[len(all)] = max(widths[len(all)], len("100.0 %"))
		}
		all = append(all, style)
	}
	return append(all, columnStyle{name: true, state: true})
}

func (r topRow) line(cells []string, widths []int, styles []columnStyle) string {
	parts := make([]string, len(cells))
	for column, cell := range cells {
		style := styles[column]
		text := style.pad(cell, widths[column])
		switch {
		case style.share && r.Share > 0.95:
			text += " " + full.Render(bar(r.Share, barWidth))
		case style.share:
			text += " " + filled.Render(bar(r.Share, barWidth))
		case style.alarm != "" && r.Values[style.alarm].Number > 0:
			text = alarm.Render(text)
		case style.state && r.State != "enforced":
			text = full.Render(text)
		}
		parts[column] = text
	}
	return strings.TrimRight(strings.Join(parts, "  "), " ")
}

// pad fills a cell with spaces up to width.
func (s columnStyle) pad(cell string, width int) string {
	space := strings.Repeat(" ", max(0, width-runewidth.StringWidth(cell)))
	if s.name {
		return cell + space
	}
	return space + cell
}
