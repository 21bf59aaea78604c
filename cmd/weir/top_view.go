package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/charmbracelet/lipgloss"
	"github.com/mattn/go-runewidth"

	"weir/internal/daemon"
)

// topView draws the live view. Its parts can be others in tests.
type topView struct {
	out      io.Writer
	source   topSource
	interval time.Duration
	size     func() (width, height int)

	before daemon.Status
	read   time.Time
}

const (
	ctrlC     = 3
	barWidth  = 10
	nameWidth = 28 // of the widest name or selector that is printed whole
)

// run draws once at the beginning and with every tick.
func (v *topView) run(ctx context.Context, keys <-chan byte, ticks <-chan time.Time) error {
	for {
		if err := v.draw(); err != nil {
			return err
		}
		for waiting := true; waiting; {
			select {
			case <-ctx.Done():
				return nil
			case key, open := <-keys:
				if !open || key == 'q' || key == 'Q' || key == ctrlC {
					return nil
				}
			case <-ticks:
				waiting = false
			}
		}
	}
}

// draw replaces the screen's contents line by line, which does not flicker as clearing it would.
func (v *topView) draw() error {
	status, read, err := v.source()
	if err != nil {
		return err
	}
	rows := topRows(v.before, status, read.Sub(v.read))
	v.before, v.read = status, read
	width, height := v.size()
	lines := append(v.head(status, read), v.table(rows, status)...)
	if len(lines) > height {
		hidden := len(lines) - height + 1
		lines = append(lines[:height-1], dim.Render(fmt.Sprintf("… and %d more, less busy", hidden)))
	}
	var text strings.Builder
	text.WriteString("\033[H")
	for i, line := range lines {
		if i > 0 {
			text.WriteString("\r\n")
		}
		text.WriteString(lipgloss.NewStyle().MaxWidth(width).Render(line) + "\033[K")
	}
	text.WriteString("\033[J")
	if _, err := io.WriteString(v.out, text.String()); err != nil {
		return fmt.Errorf("draw: %w", err)
	}
	return nil
}

var (
	bold    = lipgloss.NewStyle().Bold(true)
	dim     = lipgloss.NewStyle().Faint(true)
	filled  = lipgloss.NewStyle().Foreground(lipgloss.Color("6"))
	full    = lipgloss.NewStyle().Foreground(lipgloss.Color("3"))
	refused = lipgloss.NewStyle().Foreground(lipgloss.Color("1"))
)

// head is the first lines: what this is, and what a reader must know.
func (v *topView) head(status daemon.Status, read time.Time) []string {
	lines := []string{bold.Render("weir top") + dim.Render(fmt.Sprintf("  %s, every %s, q quits", read.Format(time.TimeOnly), v.interval))}
	for _, note := range controllerNote(status.Controller) {
		lines = append(lines, dim.Render(note))
	}
	if len(status.Scopes) > 0 && !status.Enforced {
		lines = append(lines, refused.Render(notAttached))
	}
	return append(lines, "")
}

// table is the header and one line for each row.
func (v *topView) table(rows []topRow, status daemon.Status) []string {
	if len(rows) == 0 {
		return []string{"No limit is in force."}
	}
	cells := make([][]string, len(rows))
	widths := make([]int, len(topColumns))
	for i, name := range topColumns {
		widths[i] = runewidth.StringWidth(name)
	}
	for i, row := range rows {
		cells[i] = row.cells()
		for column, cell := range cells[i] {
			cells[i][column] = runewidth.Truncate(cell, nameWidth, "…")
			if column == stateColumn {
				cells[i][column] = cell // the last one has the rest of the line
			}
			widths[column] = max(widths[column], runewidth.StringWidth(cells[i][column]))
		}
	}
	widths[shareColumn] = max(widths[shareColumn], 7)
	header := make([]string, len(topColumns))
	for column, name := range topColumns {
		header[column] = pad(name, widths[column], column)
		if column == shareColumn {
			header[column] += strings.Repeat(" ", barWidth+1)
		}
	}
	lines := []string{bold.Render(strings.TrimRight(strings.Join(header, "  "), " "))}
	for i, row := range rows {
		lines = append(lines, line(row, cells[i], widths))
	}
	if status.Overflow > 0 {
		lines = append(lines, "", dim.Render(fmt.Sprintf("%d packets had more scopes than can be charged; the outermost were not.", status.Overflow)))
	}
	return lines
}

func line(row topRow, cells []string, widths []int) string {
	parts := make([]string, len(cells))
	for column, cell := range cells {
		text := pad(cell, widths[column], column)
		switch {
		case column == shareColumn:
			style := filled
			if row.Share > 0.95 {
				style = full
			}
			text += " " + style.Render(bar(row.Share, barWidth))
		case column == refusedColumn && row.Refused > 0:
			text = refused.Render(text)
		case column == stateColumn && row.State != "enforced":
			text = full.Render(text)
		}
		parts[column] = text
	}
	return strings.TrimRight(strings.Join(parts, "  "), " ")
}

// pad fills a cell up to its width: names on the left, figures on the right.
func pad(cell string, width, column int) string {
	space := strings.Repeat(" ", max(0, width-runewidth.StringWidth(cell)))
	if column < 3 || column == stateColumn {
		return cell + space
	}
	return space + cell
}
