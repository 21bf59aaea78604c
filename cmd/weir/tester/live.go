// SPDX-License-Identifier: Apache-2.0

package tester

import (
	"bytes"
	"fmt"
	"strings"

	"weir/cmd/weir/cli"
	"weir/internal/texttable"
	"weir/record"
	"weir/tester/evidence"
	"weir/tester/session"
)

// testerLive shows a run's streams on standard error: a table that is redrawn each second on a
// terminal, a line elsewhere.
type testerLive struct {
	app    *cli.App
	redraw bool
	lines  int // of the table on the screen
}

// liveRows is the number of streams in the live table.
const liveRows = 16

func newTesterLive(a *cli.App) *testerLive { return &testerLive{app: a, redraw: a.Interactive()} }

// show is the session's Progress.
func (l *testerLive) show(account session.Account) {
	switch {
	case l.app.Quiet:
	case l.redraw:
		l.table(account)
	default:
		l.app.Say("%s", liveLine(account))
	}
}

// liveLine sums a run up.
func liveLine(account session.Account) string {
	var sent, received, lost uint64
	var rate float64
	sending, receiving := false, false
	for _, s := range account.Streams {
		if s.Sent != nil {
			sending, sent = true, sent+s.Sent.Frames
		}
		if s.Received != nil {
			receiving, received, lost = true, received+s.Received.Received, lost+s.Received.Lost
		}
	}
	for _, r := range account.Series {
		if r.At == account.Elapsed {
			rate += r.Wire
		}
	}
	parts := []string{fmt.Sprintf("%.0f s:", account.Elapsed.Seconds())}
	if sending {
		parts = append(parts, fmt.Sprintf("%d frames sent", sent))
	}
	if receiving {
		parts = append(parts, fmt.Sprintf("%d received, %d lost before the last arrival, %s on the wire", received, lost, record.BitPerSecond.Format(rate)))
	}
	return strings.Join(parts, " ")
}

func (l *testerLive) table(account session.Account) {
	t := evidence.Frames(account)
	if len(t.Rows) > liveRows {
		t.Note = fmt.Sprintf("and %d more streams", len(account.Streams)-liveRows)
		t.Rows = t.Rows[:liveRows]
	}
	t.Title = liveLine(account)
	var out bytes.Buffer
	if err := texttable.Write(&out, t.Title, t.Note, t.Columns, t.Rows); err != nil {
		return // a buffer takes everything
	}
	l.clear()
	width := l.app.Width()
	for line := range strings.SplitSeq(strings.TrimRight(out.String(), "\n"), "\n") {
		if r := []rune(line); len(r) > width { // a wrapped line could not be redrawn
			line = string(r[:width])
		}
		fmt.Fprintln(l.app.Stderr, line)
		l.lines++
	}
}

// clear moves the cursor to the table's first line and clears the screen below.
func (l *testerLive) clear() {
	if l.lines > 0 {
		fmt.Fprintf(l.app.Stderr, "\033[%dA\033[J", l.lines)
	}
	l.lines = 0
}

// end removes the live table: the result follows.
func (l *testerLive) end() {
	if l.redraw {
		l.clear()
	}
}
