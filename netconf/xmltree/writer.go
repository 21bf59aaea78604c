// SPDX-License-Identifier: Apache-2.0

package xmltree

import (
	"slices"
	"strings"
	"unicode/utf8"
)

// Writer encodes elements without white space between them. The zero value is ready.
type Writer struct {
	b     strings.Builder
	stack []open
}

// open is a started element.
type open struct {
	local, space string // space is the default namespace inside it
}

// Start begins an element; attributes are pairs of a name, with its prefix, and a value.
func (w *Writer) Start(space, local string, attributes ...string) {
	w.tag(space, local, attributes)
	w.b.WriteByte('>')
	w.stack = append(w.stack, open{local, space})
}

// End closes the innermost element.
func (w *Writer) End() {
	last := len(w.stack) - 1
	w.b.WriteString("</" + w.stack[last].local + ">")
	w.stack = w.stack[:last]
}

// Leaf writes an element with text.
func (w *Writer) Leaf(space, local, text string, attributes ...string) {
	w.tag(space, local, attributes)
	if text == "" {
		w.b.WriteString("/>")
		return
	}
	w.b.WriteByte('>')
	escape(&w.b, text, false)
	w.b.WriteString("</" + local + ">")
}

func (w *Writer) tag(space, local string, attributes []string) {
	w.b.WriteString("<" + local)
	if len(w.stack) == 0 || w.stack[len(w.stack)-1].space != space {
		w.attribute("xmlns", space)
	}
	for pair := range slices.Chunk(attributes, 2) {
		w.attribute(pair[0], pair[1])
	}
}

func (w *Writer) attribute(name, value string) {
	w.b.WriteString(" " + name + `="`)
	escape(&w.b, value, true)
	w.b.WriteByte('"')
}

// Raw writes text that is XML already; it must declare its own default namespace.
func (w *Writer) Raw(text string) { w.b.WriteString(text) }

// Len is the number of bytes so far.
func (w *Writer) Len() int { return w.b.Len() }

// String returns the document so far.
func (w *Writer) String() string { return w.b.String() }

// Element writes a decoded element again, with the prefixes in scope that its values may use.
func (w *Writer) Element(e *Element) {
	var attributes []string
	seen := map[string]string{}
	for prefix, space := range e.Bindings() {
		seen[prefix] = space
	}
	prefixes := make([]string, 0, len(seen))
	for prefix := range seen {
		prefixes = append(prefixes, prefix)
	}
	slices.Sort(prefixes)
	for _, prefix := range prefixes {
		attributes = append(attributes, "xmlns:"+prefix, seen[prefix])
	}
	for _, a := range e.Attrs {
		name := a.Local
		if a.Prefix != "" {
			name = a.Prefix + ":" + name
		}
		attributes = append(attributes, name, a.Value)
	}
	if len(e.Kids) == 0 {
		w.Leaf(e.Space, e.Local, e.Text, attributes...)
		return
	}
	w.Start(e.Space, e.Local, attributes...)
	for _, k := range e.Kids {
		w.Element(k)
	}
	w.End()
}

// escape writes text for an element or, with quotes, for an attribute. Characters that XML cannot
// hold become U+FFFD.
func escape(b *strings.Builder, text string, attribute bool) {
	for i := 0; i < len(text); {
		r, width := utf8.DecodeRuneInString(text[i:])
		switch {
		case r == '<':
			b.WriteString("&lt;")
		case r == '>':
			b.WriteString("&gt;")
		case r == '&':
			b.WriteString("&amp;")
		case r == '"' && attribute:
			b.WriteString("&quot;")
		case r == '\r', attribute && (r == '\n' || r == '\t'):
			b.WriteString(map[rune]string{'\r': "&#xD;", '\n': "&#xA;", '\t': "&#x9;"}[r])
		case r < 0x20 && r != '\n' && r != '\t', r == 0xfffe, r == 0xffff, r == utf8.RuneError && width == 1:
			b.WriteRune(utf8.RuneError)
		default:
			b.WriteString(text[i : i+width])
		}
		i += width
	}
}
