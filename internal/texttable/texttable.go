// SPDX-License-Identifier: Apache-2.0

// Package texttable prints tables of text for a terminal: columns as wide as their widest cell,
// numbers to the right. On a terminal, text cells are wrapped so that the table fits.
//
// lipgloss/table, a dependency of weir top, does not replace it: it pads each line with spaces to
// the full width, draws one rule below all columns, aligns columns only by a function that must
// measure them again, and formats 1,000 rows in 96 ms instead of 2 ms.
package texttable

import (
	"fmt"
	"io"
	"regexp"
	"strings"

	"github.com/mattn/go-runewidth"
)

// numeric matches a cell that reads as a figure: a number first, or a dash for "none".
var numeric = regexp.MustCompile(`^([-−+±<>≤≥~]?\s?\d.*|[-–])$`)

// Style describes the output. The zero value is a file: unlimited width, no colour.
type Style struct {
	Width  int // columns; 0 for no bound
	Colour bool
}

// Write prints title, header, rows and note. A row shorter than the header is padded with empty
// cells.
func Write(w io.Writer, title, note string, columns []string, rows [][]string) error {
	return Style{}.Write(w, title, note, columns, rows)
}

// Write is the function Write with a style.
func (s Style) Write(w io.Writer, title, note string, columns []string, rows [][]string) error {
	shown := make([][]string, len(rows))
	for i, row := range rows {
		shown[i] = printables(row)
	}
	rows = shown
	widths, right := measure(columns, rows)
	if s.Width > 0 {
		fit(widths, right, s.Width)
	}
	var out strings.Builder
	if title != "" {
		fmt.Fprintf(&out, "%s\n", Printable(title))
	}
	s.row(&out, columns, widths, right, func(string) string { return bold })
	rule := make([]string, len(columns))
	for i, width := range widths {
		rule[i] = strings.Repeat("─", width)
	}
	s.row(&out, rule, widths, right, func(string) string { return faint })
	for _, row := range rows {
		s.row(&out, row, widths, right, colourOf)
	}
	if note != "" {
		fmt.Fprintf(&out, "%s\n", PrintableLines(note))
	}
	_, err := io.WriteString(w, out.String())
	return err
}

// measure returns the width of each column and whether it holds only figures.
func measure(columns []string, rows [][]string) (widths []int, right []bool) {
	widths, right = make([]int, len(columns)), make([]bool, len(columns))
	for i, column := range columns {
		widths[i] = runewidth.StringWidth(column)
		right[i] = len(rows) > 0
		for _, row := range rows {
			if i >= len(row) {
				continue
			}
			widths[i] = max(widths[i], runewidth.StringWidth(row[i]))
			right[i] = right[i] && (row[i] == "" || numeric.MatchString(row[i]))
		}
	}
	return widths, right
}

// row prints a row in as many lines as its tallest cell needs.
func (s Style) row(out *strings.Builder, cells []string, widths []int, right []bool, colour func(string) string) {
	wrapped, colours, height := make([][]string, len(widths)), make([]string, len(widths)), 1
	for i, width := range widths {
		if i < len(cells) {
			wrapped[i] = wrap(cells[i], width)
			if s.Colour {
				colours[i] = colour(cells[i])
			}
		}
		height = max(height, len(wrapped[i]))
	}
	for n := range height {
		line(out, n, wrapped, colours, widths, right)
	}
}

// line prints one line of a row, without spaces at its end.
func line(out *strings.Builder, n int, wrapped [][]string, colours []string, widths []int, right []bool) {
	pending := 0 // spaces before the next text
	for i, width := range widths {
		cell := ""
		if n < len(wrapped[i]) {
			cell = wrapped[i][n]
		}
		space := width - runewidth.StringWidth(cell)
		if i > 0 {
			pending += gap
		}
		if right[i] {
			pending, space = pending+space, 0
		}
		if cell != "" {
			out.WriteString(strings.Repeat(" ", pending))
			pending = 0
			if colours[i] != plain {
				cell = colours[i] + cell + reset
			}
			out.WriteString(cell)
		}
		pending += space
	}
	out.WriteString("\n")
}
