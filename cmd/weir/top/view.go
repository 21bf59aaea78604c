// SPDX-License-Identifier: Apache-2.0

package top

import (
	"fmt"
	"strings"
	"time"

	"charm.land/bubbles/v2/help"
	"charm.land/bubbles/v2/key"
	"charm.land/bubbles/v2/viewport"
	tea "charm.land/bubbletea/v2"
	"charm.land/lipgloss/v2"

	"weir/cmd/weir/view"
	"weir/core/engine"
)

// topView is the live view: a fixed head and foot, and between them the tables of the modules or
// the explanation of keys and columns.
type topView struct {
	source   topSource
	interval time.Duration

	keys   topKeys
	help   help.Model
	body   viewport.Model
	width  int
	height int

	before  engine.Status
	read    time.Time
	modules []topModule
	order   topOrder

	typing, paused, explains bool
	err                      error // error of the source; the view quits
}

// reading is one reading of the source; tick requests the next one.
type (
	reading struct {
		status engine.Status
		read   time.Time
		err    error
	}
	tick struct{}
)

func newTopView(source topSource, interval time.Duration) *topView {
	v := &topView{source: source, interval: interval, keys: newTopKeys(), help: help.New(), body: viewport.New(), width: 80, height: 24, order: topOrder{by: byShare}}
	v.help.Styles = help.Styles{ShortKey: bold, ShortDesc: dim, ShortSeparator: dim, Ellipsis: dim, FullKey: bold, FullDesc: dim, FullSeparator: dim}
	return v
}

// Init reads the source for the first time.
func (v *topView) Init() tea.Cmd { return v.readSource }

func (v *topView) readSource() tea.Msg {
	status, read, err := v.source()
	return reading{status, read, err}
}

// Update handles a reading, a tick, a key or a new size of the terminal.
func (v *topView) Update(message tea.Msg) (tea.Model, tea.Cmd) {
	var command tea.Cmd
	switch m := message.(type) {
	case reading:
		if v.err = m.err; m.err != nil {
			return v, tea.Quit
		}
		if !v.paused {
			v.modules = topModules(v.before, m.status, m.read.Sub(v.read))
			v.before, v.read = m.status, m.read
		}
		command = tea.Tick(v.interval, func(time.Time) tea.Msg { return tick{} })
	case tick:
		return v, v.readSource
	case tea.WindowSizeMsg:
		if m.Width > 0 && m.Height > 0 { // 0 on serial lines and terminals of containers
			v.width, v.height = m.Width, m.Height
		}
	case tea.KeyPressMsg:
		if v.typed(m) {
			return v, tea.Quit
		}
	}
	v.fill()
	return v, command
}

// typed handles a key; quit reports the quit key.
func (v *topView) typed(m tea.KeyPressMsg) (quit bool) {
	k := v.keys
	if v.typing && m.String() != "ctrl+c" {
		v.edit(m)
		return false
	}
	switch {
	case key.Matches(m, k.Quit):
		return true
	case key.Matches(m, k.Help):
		v.explains = !v.explains
		v.body.GotoTop()
	case key.Matches(m, k.Sort):
		v.order = v.order.next(orders(v.modules), 1)
	case key.Matches(m, k.Back):
		v.order = v.order.next(orders(v.modules), -1)
	case key.Matches(m, k.Reverse):
		v.order.reversed = !v.order.reversed
	case key.Matches(m, k.Pause):
		v.paused = !v.paused
	case key.Matches(m, k.Filter):
		v.typing, v.order.filter = true, ""
	case m.Code == tea.KeyEscape:
		v.explains, v.order.filter = false, ""
	default:
		v.scroll(m)
	}
	return false
}

// edit handles a key of the filter line. The filter applies at once.
func (v *topView) edit(m tea.KeyPressMsg) {
	typed := []rune(v.order.filter)
	switch m.Code {
	case tea.KeyEnter:
		v.typing = false
	case tea.KeyEscape:
		v.typing, typed = false, nil
	case tea.KeyBackspace:
		typed = typed[:max(len(typed)-1, 0)]
	default:
		typed = append(typed, []rune(m.Text)...)
	}
	v.order.filter = strings.ToLower(string(typed))
	v.body.GotoTop()
}

func (v *topView) scroll(m tea.KeyPressMsg) {
	k := v.keys
	for _, one := range []struct {
		key key.Binding
		do  func()
	}{
		{k.Up, func() { v.body.ScrollUp(1) }}, {k.Down, func() { v.body.ScrollDown(1) }},
		{k.PageUp, func() { v.body.PageUp() }}, {k.PageDown, func() { v.body.PageDown() }},
		{k.Home, func() { v.body.GotoTop() }}, {k.End, func() { v.body.GotoBottom() }},
		{k.Left, func() { v.body.ScrollLeft(8) }}, {k.Right, func() { v.body.ScrollRight(8) }},
	} {
		if key.Matches(m, one.key) {
			one.do()
		}
	}
}

// fill sets the scrolling body.
func (v *topView) fill() {
	var lines []string
	switch {
	case v.explains:
		lines = v.explanation()
	case v.read.IsZero():
	case len(v.modules) == 0:
		lines = []string{view.NoScopes(v.before)}
	default:
		lines = v.tables()
	}
	v.body.SetWidth(v.width)
	v.body.SetHeight(max(v.height-len(v.head())-1, 1))
	v.body.SetContentLines(lines)
}

// View returns the whole screen.
func (v *topView) View() tea.View {
	lines := append(v.head(), strings.Split(v.body.View(), "\n")...)
	lines = append(lines, v.foot())
	for i, line := range lines {
		lines[i] = lipgloss.NewStyle().MaxWidth(v.width).Render(line)
	}
	screen := tea.NewView(strings.Join(lines[:min(len(lines), v.height)], "\n"))
	screen.AltScreen = true
	return screen
}

// head returns the first lines: interval, order and filter, and warnings about the controller and
// detached programs.
func (v *topView) head() []string {
	state := []string{v.read.Format(time.TimeOnly), "every " + v.interval.String(), "by " + v.order.by}
	if v.order.reversed {
		state[2] += ", reversed"
	}
	if v.paused {
		state = append(state, "paused")
	}
	if v.order.filter != "" && !v.typing {
		state = append(state, "with “"+v.order.filter+"”")
	}
	lines := []string{bold.Render("weir top") + dim.Render("  "+strings.Join(state, ", "))}
	for _, note := range view.ControllerNote(v.before.Controller) {
		lines = append(lines, dim.Render(note))
	}
	if len(v.before.Scopes) > 0 && !v.before.Enforced {
		lines = append(lines, alarm.Render(view.NotAttached))
	}
	return append(lines, "")
}

// foot returns the last line: the filter during input, else the scroll position and the keys.
func (v *topView) foot() string {
	if v.typing {
		return "/" + v.order.filter + "▏" + dim.Render("  enter keeps it, esc ends it")
	}
	where := ""
	if n := v.body.TotalLineCount(); n > v.body.Height() {
		where = fmt.Sprintf("lines %d to %d of %d  ", v.body.YOffset()+1, min(v.body.YOffset()+v.body.Height(), n), n)
	}
	return dim.Render(where) + v.help.ShortHelpView(v.keys.ShortHelp())
}

// tables returns the tables of all modules.
func (v *topView) tables() (lines []string) {
	for i, r := range v.modules {
		if i > 0 {
			lines = append(lines, "")
		}
		if len(v.modules) > 1 {
			lines = append(lines, bold.Render(r.Module))
		}
		lines = append(lines, v.order.apply(r).table()...)
	}
	return lines
}

// explanation describes the keys and the columns.
func (v *topView) explanation() []string {
	lines := append(strings.Split(v.help.FullHelpView(v.keys.FullHelp()), "\n"), "")
	wrap := lipgloss.NewStyle().Width(max(v.width, 20))
	for _, r := range v.modules {
		lines = append(lines, bold.Render(r.Module))
		for _, c := range topColumns(r.status.Columns) {
			if !c.share {
				lines = append(lines, strings.Split(wrap.Render(c.title+": "+c.of.Help), "\n")...)
			}
		}
		lines = append(lines, "")
	}
	return lines
}
