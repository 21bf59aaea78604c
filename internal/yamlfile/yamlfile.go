// SPDX-License-Identifier: Apache-2.0

// Package yamlfile reads hand-written YAML files strictly, with the place of every mistake.
//
// [Parse] makes a tree of a file's text and [Tree.Decode] fills a Go struct from it. Unknown keys,
// duplicate keys, missing values and values of the wrong kind are reported all at once, each as
// file:line:column with the nearest valid key. A caller adds mistakes that it finds later to the
// same [Problems], with the places in [Fields].
//
// Pitfalls: scalars are text until the destination's type reads them, so "yes" is no bool and 1e3
// is a fine string. An empty value ("rate:") is an error, not a zero. Tags, several documents in a
// file and keys that are not plain words are rejected.
package yamlfile

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"weir/internal/fault"
)

// Place is a position in a file. Line and Column start at 1; 0 is unknown.
type Place struct {
	File         string
	Line, Column int
}

// String prints "file:line:column", the form that editors jump to.
func (p Place) String() string {
	switch {
	case p.Line == 0:
		return p.File
	case p.Column == 0:
		return fmt.Sprintf("%s:%d", p.File, p.Line)
	}
	return fmt.Sprintf("%s:%d:%d", p.File, p.Line, p.Column)
}

// Error is one mistake in a file.
type Error struct {
	Place   Place
	Message string
	Try     string // one sentence in the imperative; "" uses the file's general advice
}

func (e *Error) Error() string { return e.Place.String() + ": " + e.Message }

// Of a file with many mistakes, this many are kept and printed; the rest is counted.
const (
	maxKept  = 200
	maxShown = 20
)

// Problems collects the mistakes of a file. The zero value is empty and ready to use.
type Problems struct {
	found  []*Error
	beyond int // mistakes that came after the first maxKept
}

// Add adds a mistake; the same one at the same place is kept once.
func (p *Problems) Add(place Place, try, format string, args ...any) {
	if len(p.found) == maxKept {
		p.beyond++
		return
	}
	e := &Error{Place: place, Message: fmt.Sprintf(format, args...), Try: try}
	for _, have := range p.found {
		if *have == *e {
			return
		}
	}
	p.found = append(p.found, e)
}

// Merge adds the mistakes of other, with a note behind their messages unless p has the same one
// already.
func (p *Problems) Merge(other *Problems, note string) {
	for _, e := range other.found {
		if !slices.ContainsFunc(p.found, func(have *Error) bool {
			return have.Place == e.Place && strings.HasPrefix(have.Message, e.Message)
		}) {
			p.Add(e.Place, e.Try, "%s%s", e.Message, note)
		}
	}
	p.beyond += other.beyond
}

// Len returns the number of mistakes so far.
func (p *Problems) Len() int { return len(p.found) + p.beyond }

// Err returns nil without mistakes, otherwise all of them in the file's order as one fault of
// status Usage. Its advice is theirs, or else try.
func (p *Problems) Err(try string) error {
	if len(p.found) == 0 {
		return nil
	}
	sorted := slices.Clone(p.found)
	slices.SortStableFunc(sorted, func(a, b *Error) int {
		if a.Place.Line != b.Place.Line {
			return a.Place.Line - b.Place.Line
		}
		return a.Place.Column - b.Place.Column
	})
	if own := advice(sorted[:min(len(sorted), maxShown)]); own != "" {
		try = own
	}
	return fault.New(fault.Usage, try, "%w", &list{sorted, p.beyond})
}

// advice joins the advice of mistakes, each once, with lines if several mistakes differ.
func advice(mistakes []*Error) string {
	var all []string
	same, lines := true, map[string]string{}
	for _, e := range mistakes {
		same = same && e.Try == mistakes[0].Try
		switch {
		case e.Try == "":
		case lines[e.Try] == "":
			lines[e.Try] = fmt.Sprintf("line %d", e.Place.Line)
			all = append(all, e.Try)
		default:
			lines[e.Try] += fmt.Sprintf(", %d", e.Place.Line)
		}
	}
	if same {
		return mistakes[0].Try
	}
	for i, try := range all {
		all[i] = lines[try] + ": " + try
	}
	return strings.Join(all, "\n")
}

// list is the joint error of several mistakes, one line each.
type list struct {
	errors []*Error
	beyond int
}

func (l *list) Error() string {
	var b strings.Builder
	for i, e := range l.errors {
		if i == maxShown {
			fmt.Fprintf(&b, "\nand %d more mistakes", len(l.errors)-maxShown+l.beyond)
			break
		}
		if i > 0 {
			b.WriteByte('\n')
		}
		b.WriteString(e.Error())
	}
	return b.String()
}

func (l *list) Unwrap() []error {
	all := make([]error, len(l.errors))
	for i, e := range l.errors {
		all[i] = e
	}
	return all
}

// Mistakes returns the single mistakes of an error of this package, in the file's order.
func Mistakes(err error) []*Error {
	var l *list
	if errors.As(err, &l) {
		return l.errors
	}
	return nil
}

// Decode reads a whole file into the struct that into points to: Parse and Tree.Decode with no
// variables.
func Decode(filename string, text []byte, into any) error {
	tree, err := Parse(filename, text)
	if err != nil {
		return err
	}
	var p Problems
	tree.Decode(into, nil, &p)
	return p.Err(correct)
}

const correct = "correct the file at the places named"

// tryFormats is the advice for a file without a single place to name.
const tryFormats = "docs/formats describes the file, with examples"
