// SPDX-License-Identifier: Apache-2.0

package top

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"
	"golang.org/x/sys/unix"

	"weir/cmd/weir/clitest"
	"weir/cmd/weir/view"
	"weir/core/engine"
	"weir/core/module"
	"weir/core/policy"
)

// screen returns the lines of the view without colours.
func screen(v *topView) []string { return strings.Split(ansi.Strip(v.View().Content), "\n") }

// live returns a view on a terminal of a size, after these readings.
func live(width, height int, all ...engine.Status) *topView {
	v := newTopView(readings(all...), time.Second)
	v.Update(tea.WindowSizeMsg{Width: width, Height: height})
	for range all {
		v.Update(v.readSource())
	}
	return v
}

// press sends keys to the view: runes, or names such as "esc". quit reports that the view quits.
func press(v *topView, keys ...string) (quit bool) {
	named := map[string]tea.Key{"esc": {Code: tea.KeyEscape}, "enter": {Code: tea.KeyEnter}, "backspace": {Code: tea.KeyBackspace}, "down": {Code: tea.KeyDown},
		"pgdown": {Code: tea.KeyPgDown}, "end": {Code: tea.KeyEnd}, "right": {Code: tea.KeyRight}, "ctrl+c": {Code: 'c', Mod: tea.ModCtrl}}
	for _, k := range keys {
		one, known := named[k]
		if !known {
			one = tea.Key{Code: []rune(k)[0], Text: k}
		}
		if _, command := v.Update(tea.KeyPressMsg(one)); command != nil {
			_, quit = command().(tea.QuitMsg)
		}
	}
	return quit
}

// order returns the scopes in the order of the screen.
func order(v *topView, names ...string) string {
	var found []string
	for _, line := range screen(v) {
		for _, name := range names {
			if strings.HasPrefix(line, name+" ") {
				found = append(found, name)
			}
		}
	}
	return strings.Join(found, " ")
}

func TestLiveViewShowsRatesAndWhatIsWrong(t *testing.T) {
	away := busy(1e6, 7)
	away.Controller = &engine.Controller{LastSeen: time.Now(), Problem: "line 7 is wrong"}
	away.Enforced, away.Modules[0].Notes = false, []string{"3 packets had more scopes"}
	text := strings.Join(screen(live(400, 40, busy(0, 0), away)), "\n")
	for _, want := range []string{"q quit", "? explain", "8.00 Mbit/s", "80.0 % ████████  ", "Controller away since", "line 7 is wrong", "not completely attached", "3 packets had more scopes"} {
		if !strings.Contains(text, want) {
			t.Errorf("the screen lacks %q:\n%s", want, text)
		}
	}
	if text := strings.Join(screen(live(400, 40, busy(1e6, 7))), "\n"); strings.Contains(text, "8.00 Mbit/s") {
		t.Error("a rate is shown after one look")
	}
	if text := strings.Join(screen(live(80, 24, engine.Status{})), "\n"); !strings.Contains(text, view.NoPolicy) {
		t.Errorf("without scopes: %q", text)
	}
}

func TestLiveViewSortsFiltersAndPauses(t *testing.T) {
	v := live(400, 40, busy(0, 0), busy(1e6, 7))
	for _, test := range []struct{ keys, by, want string }{
		{"", "by busiest", "busy slow w"},
		{"s", "by scope", "busy slow w"},
		{"r", "by scope, reversed", "w slow busy"},
		{"r s s", "by rate", "busy slow w"},
		{"S", "by limit", "busy slow w"},
		{"S S S", "by dropped/s", "busy slow w"},
		{"s / S L backspace l enter", "with “sl”", "slow"},
		{"/ esc", "by busiest", "busy slow w"},
		{"/ W a i t i n g", "by busiest", "w"},
		{"esc p", "paused", "busy slow w"},
	} {
		press(v, strings.Fields(test.keys)...)
		if head := screen(v)[0]; !strings.Contains(head, test.by) {
			t.Errorf("%q: the head is %q, want %q", test.keys, head, test.by)
		}
		if got := order(v, "busy", "slow", "w"); got != test.want {
			t.Errorf("%q: %q are shown, want %q", test.keys, got, test.want)
		}
	}
	before := screen(v)
	v.Update(v.readSource())
	if after := screen(v); strings.Join(after, "\n") != strings.Join(before, "\n") {
		t.Errorf("a paused view has changed:\n%s", strings.Join(after, "\n"))
	}
}

// many returns a status with n scopes.
func many(n int) engine.Status {
	status := busy(0, 0)
	status.Scopes, status.Modules[0].Rows = nil, nil
	for i := range n {
		name := fmt.Sprintf("s%03d", i)
		status.Scopes = append(status.Scopes, engine.ScopeStatus{State: "enforced", Scope: policy.Scope{Name: name}})
		status.Modules[0].Rows = append(status.Modules[0].Rows, engine.RowStatus{Scope: name, Part: "egress", Values: engine.Values{"bytes": module.Counted(0)}})
	}
	return status
}

func TestLiveViewScrollsAndFitsTheScreen(t *testing.T) {
	v := live(40, 12, many(100))
	for _, test := range []struct{ keys, first, last string }{
		{"", "scope", "lines 1 to 9 of 101"},
		{"down", "s000", "lines 2 to 10 of 101"},
		{"pgdown", "s009", "lines 11 to 19 of 101"},
		{"end", "s091", "lines 93 to 101 of 101"},
	} {
		press(v, strings.Fields(test.keys)...)
		lines := screen(v)
		if len(lines) != 12 || !strings.HasPrefix(lines[2], test.first) || !strings.Contains(lines[11], test.last) {
			t.Errorf("%q: %d lines, %q to %q, want %s and %s", test.keys, len(lines), lines[2], lines[len(lines)-1], test.first, test.last)
		}
		for _, line := range lines {
			if n := ansi.StringWidth(line); n > 40 {
				t.Errorf("%d columns of 40: %q", n, line)
			}
		}
	}
	press(v, "right")
	if line := screen(v)[2]; strings.HasPrefix(line, "s0") {
		t.Errorf("after → the line is %q", line)
	}
	v.Update(tea.WindowSizeMsg{Width: 60, Height: 30})
	if n := len(screen(v)); n != 30 {
		t.Errorf("%d lines after the terminal grew to 30", n)
	}
	v.Update(tea.WindowSizeMsg{}) // a serial line reports 0 rows and 0 columns
	if n := len(screen(v)); n != 30 {
		t.Errorf("%d lines on a terminal without a size", n)
	}
}

func TestLiveViewExplainsKeysAndColumns(t *testing.T) {
	status := busy(0, 0)
	status.Modules[0].Columns[5].Help = "Packets that were dropped."
	defer func() { status.Modules[0].Columns[5].Help = "" }()
	v := live(100, 40, status)
	press(v, "?")
	text := strings.Join(screen(v), "\n")
	for _, want := range []string{"reverse the order", "pgdn/f", "dropped/s: Packets that were dropped."} {
		if !strings.Contains(text, want) {
			t.Errorf("the explanation lacks %q:\n%s", want, text)
		}
	}
	press(v, "?")
	if order(v, "busy") != "busy" {
		t.Error("? does not end the explanation")
	}
}

func TestLiveViewEndsWithKeysOrAnError(t *testing.T) {
	for _, key := range []string{"q", "Q", "ctrl+c"} {
		if !press(live(80, 24, busy(0, 0)), key) {
			t.Errorf("%s does not end the view", key)
		}
	}
	v := live(80, 24, busy(0, 0))
	if press(v, "/", "q") || !press(v, "ctrl+c") {
		t.Error("while a filter is typed, q is a letter and ctrl+c ends the view")
	}
	broken := errors.New("broken")
	v = newTopView(func() (engine.Status, time.Time, error) { return engine.Status{}, time.Time{}, broken }, time.Second)
	if _, command := v.Update(v.readSource()); !errors.Is(v.err, broken) || command == nil {
		t.Errorf("got %v, want the source's error", v.err)
	}
}

// On a real terminal the view receives keys, and restores the terminal's settings.
func TestTopOnATerminal(t *testing.T) {
	host, terminal := clitest.Terminal(t)
	settings := func() unix.Termios {
		s, err := unix.IoctlGetTermios(int(terminal.Fd()), unix.TCGETS)
		if err != nil {
			t.Fatal(err)
		}
		return *s
	}
	before := settings()
	drawn := make(chan string, 1)
	go func() { // types q once the last scope is on the screen
		var text strings.Builder
		typed := false
		buffer := make([]byte, 4096)
		for {
			n, err := host.Read(buffer)
			text.Write(buffer[:n])
			if !typed && strings.Contains(text.String(), "s002") {
				typed = true
				_, _ = io.WriteString(host, "q")
			}
			if err != nil || strings.Contains(text.String(), ansi.ResetModeAltScreenSaveCursor) {
				drawn <- text.String()
				return
			}
		}
	}()
	if err := watch(t.Context(), terminal, terminal, readings(many(3)), time.Hour); err != nil {
		t.Fatal(err)
	}
	if text := <-drawn; !strings.Contains(text, ansi.SetModeAltScreenSaveCursor) || !strings.Contains(text, "s002") {
		t.Errorf("the terminal got %q", text)
	}
	if after := settings(); after != before {
		t.Errorf("the terminal has the settings %+v, had %+v", after, before)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := watch(ctx, terminal, terminal, readings(many(3)), time.Hour); err != nil {
		t.Errorf("interrupted: %v", err)
	}
}
