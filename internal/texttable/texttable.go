// SPDX-License-Identifier: Apache-2.0

// Package texttable prints tables of text for a terminal: columns as wide as their widest cell,
// numbers to the right.
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

// Write prints title, header, rows and note. A row shorter than the header is padded with empty
// cells.
func Write(w io.Writer, title, note string, columns []string, rows [][]string) error {
	widths, right := measure(columns, rows)
	var out strings.Builder
	if title != "" {
		fmt.Fprintf(&out, "%s\n", title)
	}
	line(&out, columns, widths, right)
	rule := make([]string, len(columns))
	for i, width := range widths {
		rule[i] = strings.Repeat("─", width)
	}
	line(&out, rule, widths, right)
	for _, row := range rows {
		line(&out, row, widths, right)
	}
	if note != "" {
		fmt.Fprintf(&out, "%s\n", note)
	}
	_, err := io.WriteString(w, out.String())
	return err
}

// measure returns each column's width and whether it holds figures alone.
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

func line(out *strings.Builder, cells []string, widths []int, right []bool) {
	var text strings.Builder
	for i, width := range widths {
		cell := ""
		if i < len(cells) {
			cell = cells[i]
		}
		space := strings.Repeat(" ", width-runewidth.StringWidth(cell))
		if i > 0 {
			text.WriteString("  ")
		}
		if right[i] {
			text.WriteString(space + cell)
		} else {
			text.WriteString(cell + space)
		}
	}
	out.WriteString(strings.TrimRight(text.String(), " ") + "\n")
}
