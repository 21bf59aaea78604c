// SPDX-License-Identifier: Apache-2.0

package texttable

import (
	"regexp"
	"strings"
	"testing"

	"github.com/mattn/go-runewidth"
)

var (
	columns = []string{"scope", "rate", "state"}
	rows    = [][]string{
		{"backups", "200 Mbit/s", "waiting: unit backup.service has no cgroup: it does not run"},
		{"a-scope-of-which-the-name-is-one-long-word", "1 Gbit/s", "enforced"},
	}
)

// A terminal breaks a long line anywhere; words and figures must stay whole.
func TestTablesFitTheTerminal(t *testing.T) {
	for _, width := range []int{200, 80, 60, 40, 10} {
		var out strings.Builder
		if err := (Style{Width: width}).Write(&out, "", "", columns, rows); err != nil {
			t.Fatal(err)
		}
		widest := 0
		for line := range strings.Lines(out.String()) {
			widest = max(widest, runewidth.StringWidth(strings.TrimRight(line, "\n")))
			if strings.HasSuffix(strings.TrimRight(line, "\n"), " ") {
				t.Errorf("a line of the table for %d ends with spaces: %q", width, line)
			}
		}
		if narrowest := minWidth + gap + len("200 Mbit/s") + gap + minWidth; widest > max(width, narrowest) {
			t.Errorf("%d columns wide, want %d:\n%s", widest, width, out.String())
		}
		for _, whole := range []string{"200 Mbit/s", "1 Gbit/s", "enforced"} {
			if !strings.Contains(out.String(), whole) {
				t.Errorf("for %d columns %q is broken:\n%s", width, whole, out.String())
			}
		}
	}
}

func TestColourChangesNoText(t *testing.T) {
	var plain, coloured strings.Builder
	if err := Write(&plain, "title", "note", columns, rows); err != nil {
		t.Fatal(err)
	}
	if err := (Style{Colour: true}).Write(&coloured, "title", "note", columns, rows); err != nil {
		t.Fatal(err)
	}
	if got := regexp.MustCompile("\033\\[[0-9]*m").ReplaceAllString(coloured.String(), ""); got != plain.String() {
		t.Errorf("without colour it is\n%s\nwant\n%s", got, plain.String())
	}
	for _, want := range []string{green + "enforced" + reset, yellow + "waiting: ", bold + "scope" + reset} {
		if !strings.Contains(coloured.String(), want) {
			t.Errorf("no %q in %q", want, coloured.String())
		}
	}
	if strings.Contains(plain.String(), "\033") {
		t.Error("a file has colours")
	}
}

func TestOnlyWholeWordsHaveAColour(t *testing.T) {
	for cell, want := range map[string]string{"enforced": green, "enforcedly": plain, "waiting: unit": yellow, "not attached": red, "": plain, "backups": plain} {
		t.Run(cell, func(t *testing.T) {
			if got := colourOf(cell); got != want {
				t.Errorf("%q has %q", cell, got)
			}
		})
	}
}
