// SPDX-License-Identifier: Apache-2.0

package texttable

import (
	"strings"

	"github.com/mattn/go-runewidth"
)

const (
	gap = 2 // columns between two cells
	// minWidth is the minimum width of a column of words in a narrowed table.
	minWidth = 12
)

// fit narrows the columns of words, the widest first, until the table fits into limit or all have
// minWidth.
func fit(widths []int, right []bool, limit int) {
	total := gap * (len(widths) - 1)
	for _, width := range widths {
		total += width
	}
	for ; total > limit; total-- {
		widest := -1
		for i, width := range widths {
			if !right[i] && width > minWidth && (widest < 0 || width > widths[widest]) {
				widest = i
			}
		}
		if widest < 0 {
			return
		}
		widths[widest]--
	}
}

// wrap breaks a cell into lines of a width, between words if possible.
func wrap(cell string, width int) (lines []string) {
	for runewidth.StringWidth(cell) > width {
		head := runewidth.Truncate(cell, width, "")
		if head == "" {
			break // narrower than one character
		}
		rest := cell[len(head):]
		if !strings.HasPrefix(rest, " ") {
			if at := strings.LastIndexByte(head, ' '); at > 0 {
				head, rest = cell[:at], cell[at:]
			}
		}
		lines, cell = append(lines, head), strings.TrimLeft(rest, " ")
	}
	return append(lines, cell)
}

// Colours (ECMA-48, SGR) of cells that equal or start with a known word: good, attention, bad.
const (
	plain  = ""
	bold   = "\033[1m"
	faint  = "\033[2m"
	green  = "\033[32m"
	yellow = "\033[33m"
	red    = "\033[31m"
	reset  = "\033[0m"
)

var words = []struct{ begins, colour string }{
	{"enforced", green}, {"available", green}, {"holds", green}, {"valid", green},
	{"shadow", yellow}, {"waiting", yellow}, {"not bound", yellow}, {"not permitted", yellow}, {"invalid", yellow}, {"missing", yellow},
	{"not attached", red}, {"does not hold", red}, {"leaks", red}, {"failed", red},
}

// colourOf returns the colour of a cell by its first word.
func colourOf(cell string) string {
	for _, w := range words {
		rest, begins := strings.CutPrefix(cell, w.begins)
		if begins && (rest == "" || rest[0] == ':' || rest[0] == ' ') {
			return w.colour
		}
	}
	return plain
}
