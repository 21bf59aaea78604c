// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"golang.org/x/term"

	"weir/internal/fault"
	"weir/internal/texttable"
	"weir/record"
)

// JSON prints v as the command's one JSON document.
func (a *App) JSON(v any) error {
	a.Printed = true
	encoder := json.NewEncoder(a.Stdout)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(v); err != nil {
		return fmt.Errorf("write JSON: %w", err)
	}
	return nil
}

// Table prints a table for people.
func (a *App) Table(t record.Table) error {
	return a.Style().Write(a.Stdout, t.Title, t.Note, t.Columns, t.Rows)
}

// Style is that of standard output: as wide as its terminal, with colour where people want it.
func (a *App) Style() texttable.Style {
	file, is := a.Stdout.(*os.File)
	if !is || !term.IsTerminal(int(file.Fd())) {
		return texttable.Style{}
	}
	style := texttable.Style{Colour: os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"}
	if width, _, err := term.GetSize(int(file.Fd())); err == nil {
		style.Width = width
	}
	return style
}

// Say prints a message beside the result, unless --quiet.
func (a *App) Say(format string, args ...any) {
	if !a.Quiet {
		fmt.Fprintf(a.Stderr, format+"\n", args...)
	}
}

// Interactive reports whether standard error is a terminal that can redraw a line.
func (a *App) Interactive() bool {
	file, ok := a.Stderr.(*os.File)
	return ok && term.IsTerminal(int(file.Fd())) && os.Getenv("TERM") != "dumb"
}

// Stopped converts an interrupt by the user to an exit status.
func Stopped(ctx context.Context, err error) error {
	if ctx.Err() != nil && (err == nil || errors.Is(err, context.Canceled)) {
		return fault.New(fault.Failed, "", "stopped")
	}
	return err
}

// Width is the terminal's, or 80.
func (a *App) Width() int {
	if file, ok := a.Stderr.(*os.File); ok {
		if width, _, err := term.GetSize(int(file.Fd())); err == nil {
			return width
		}
	}
	return 80
}

// Plural counts things: "1 combination", "3 combinations".
func Plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

func (a *App) Warn(warnings []string) {
	for _, warning := range warnings {
		a.Say("Warning: %s", warning)
	}
}
