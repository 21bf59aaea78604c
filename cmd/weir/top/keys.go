// SPDX-License-Identifier: Apache-2.0

package top

import (
	"strings"

	"charm.land/bubbles/v2/key"
)

// topKeys holds the key bindings of the live view.
type topKeys struct {
	Up, Down, PageUp, PageDown, Home, End, Left, Right key.Binding
	Sort, Back, Reverse, Filter, Pause, Help, Quit     key.Binding
}

func newTopKeys() topKeys {
	bind := func(names, shown, does string) key.Binding {
		return key.NewBinding(key.WithKeys(strings.Fields(names)...), key.WithHelp(shown, does))
	}
	return topKeys{
		Up: bind("up k", "↑/k", "up"), Down: bind("down j", "↓/j", "down"),
		PageUp: bind("pgup b", "pgup/b", "a page up"), PageDown: bind("pgdown f", "pgdn/f", "a page down"),
		Home: bind("home g", "home/g", "to the first"), End: bind("end G", "end/G", "to the last"),
		Left: bind("left h", "←/h", "to the left"), Right: bind("right l", "→/l", "to the right"),
		Sort: bind("s", "s", "sort by the next column"), Back: bind("S", "S", "by the one before"),
		Reverse: bind("r", "r", "reverse the order"), Filter: bind("/", "/", "filter"),
		Pause: bind("p", "p", "pause"), Help: bind("?", "?", "explain"),
		Quit: bind("q Q ctrl+c", "q", "quit"),
	}
}

// ShortHelp is the last line of the screen.
func (k topKeys) ShortHelp() []key.Binding {
	return []key.Binding{k.Quit, k.Help, k.Sort, k.Filter, k.Pause, k.Down, k.PageDown}
}

// FullHelp is the list of keys that ? shows above the columns.
func (k topKeys) FullHelp() [][]key.Binding {
	return [][]key.Binding{
		{k.Up, k.Down, k.PageUp, k.PageDown},
		{k.Home, k.End, k.Left, k.Right},
		{k.Sort, k.Back, k.Reverse, k.Filter},
		{k.Pause, k.Help, k.Quit},
	}
}
