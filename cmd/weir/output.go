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
	return texttable.Write(a.stdout, t.Title, t.Note, t.Columns, t.Rows)
}

// say prints a message that is not the result, unless --quiet.
func (a *app) say(format string, args ...any) {
	if !a.quiet {
		fmt.Fprintf(a.stderr, format+"\n", args...)
	}
}

// interactive says whether standard error is a terminal that can redraw a line.
func (a *app) interactive() bool {
	file, ok := a.stderr.(*os.File)
	return ok && term.IsTerminal(int(file.Fd())) && os.Getenv("TERM") != "dumb"
}
