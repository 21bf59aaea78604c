// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"fmt"
	"sync"
	"time"

	"weir/cmd/weir/cli"
	labrun "weir/lab/run"
)

// progress shows the progress of a run on standard error: a redrawn line on a terminal,
// occasional lines elsewhere.
type progress struct {
	app  *cli.App
	live bool // redraw

	mu   sync.Mutex
	last time.Time // when a line was printed without a terminal
	open bool      // the cursor is behind a line that will be redrawn
}

const (
	quietTime = 5 * time.Second // between lines without a terminal
	clearLine = "\r\033[K"
)

func newProgress(a *cli.App) *progress {
	return &progress{app: a, live: a.Interactive()}
}

// report handles an event.
func (p *progress) report(e labrun.Event) {
	if p.app.Quiet {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	switch e.Stage {
	case labrun.Waiting:
		p.line("waiting until another lab on this machine has measured (--share measures at once)")
	case labrun.Chosen:
		p.line("this machine carries %s", e.Reason)
	case labrun.Invalid:
		p.line("%s, repetition %d, attempt %d is invalid: %s", labrun.CellName(e.Cell), e.Repetition, e.Attempt, e.Reason)
	case labrun.Trying:
		p.status("trying whether this machine carries %s", e.Reason)
	default:
		p.status("%s", progressText(e))
	}
}

func progressText(e labrun.Event) string {
	text := fmt.Sprintf("%d of %d runs done", e.Done, e.Total)
	if e.Left > 0 {
		text += ", about " + about(e.Left) + " left"
	}
	text += ": " + labrun.CellName(e.Cell)
	if e.Repetition > 0 {
		text += fmt.Sprintf(", repetition %d", e.Repetition)
	}
	text += ", " + string(e.Stage)
	if e.Stage == labrun.Loading && e.Phase != "" {
		text += " (" + e.Phase + ")"
	}
	return text
}

// line prints a permanent line.
func (p *progress) line(format string, args ...any) {
	p.clear()
	fmt.Fprintf(p.app.Stderr, format+"\n", args...)
	p.last = time.Now()
}

// status shows the current state.
func (p *progress) status(format string, args ...any) {
	if p.live {
		text := []rune(fmt.Sprintf(format, args...))
		if width := p.app.Width(); len(text) >= width && width > 1 {
			text = append(text[:width-2], '…')
		}
		fmt.Fprint(p.app.Stderr, clearLine+string(text))
		p.open = true
		return
	}
	if time.Since(p.last) >= quietTime {
		p.line(format, args...)
	}
}

// clear removes the line that would be redrawn.
func (p *progress) clear() {
	if p.open {
		fmt.Fprint(p.app.Stderr, clearLine)
		p.open = false
	}
}

// end leaves the terminal as it was.
func (p *progress) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.clear()
}
