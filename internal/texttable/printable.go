// SPDX-License-Identifier: Apache-2.0

package texttable

import (
	"strings"
	"unicode"
)

// Printable replaces control characters and those that change the reading order: other users choose
// the names of processes and files.
func Printable(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) && r != '\t' || unicode.Is(unicode.Bidi_Control, r) {
			return unicode.ReplacementChar
		}
		return r
	}, text)
}

// PrintableLines is Printable for a text of several lines.
func PrintableLines(text string) string {
	lines := strings.Split(text, "\n")
	return strings.Join(printables(lines), "\n")
}

func printables(all []string) []string {
	printable := make([]string, len(all))
	for i, one := range all {
		printable[i] = Printable(one)
	}
	return printable
}
