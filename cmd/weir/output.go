// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"fmt"
	"os"

	"golang.org/x/term"

	"weir/internal/texttable"
	"weir/record"
)

// json prints v as the command's one JSON document.
func (a *app) json(v any) error {
	a.printed = true
	encoder := json.NewEncoder(a.stdout)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(v); err != nil {
		return fmt.Errorf("write JSON: %w", err)
	}
	return nil
}

// table prints a table for people.
func (a *app) table(t record.Table) error {
	return a.style().Write(a.stdout, t.Title, t.Note, t.Columns, t.Rows)
}

// style is that of standard output: as wide as its terminal, with colour where people want it.
func (a *app) style() texttable.Style {
	file, is := a.stdout.(*os.File)
	if !is || !term.IsTerminal(int(file.Fd())) {
		return texttable.Style{}
	}
	style := texttable.Style{Colour: os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"}
	if width, _, err := term.GetSize(int(file.Fd())); err == nil {
		style.Width = width
	}
	return style
}

// say prints a message beside the result, unless --quiet.
func (a *app) say(format string, args ...any) {
	if !a.quiet {
		fmt.Fprintf(a.stderr, format+"\n", args...)
	}
}

// interactive reports whether standard error is a terminal that can redraw a line.
func (a *app) interactive() bool {
	file, ok := a.stderr.(*os.File)
	return ok && term.IsTerminal(int(file.Fd())) && os.Getenv("TERM") != "dumb"
}
