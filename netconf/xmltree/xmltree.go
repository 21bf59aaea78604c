// SPDX-License-Identifier: Apache-2.0

// Package xmltree decodes XML messages into trees of elements, within limits, and keeps the
// namespace bindings that values need (identityref, XPath).
//
// Pitfalls:
//   - Document types, processing instructions (but for the XML declaration) and mixed content are
//     errors.
//   - Text of an element with child elements is dropped; it holds white space alone.
//   - A decoded tree is read-only.
package xmltree

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"strings"
)

// Limits bound a message. A zero field is the default.
type Limits struct {
	Depth      int // nested elements; 64
	Elements   int // 100,000
	Attributes int // of one element; 64
}

func (l Limits) withDefaults() Limits {
	if l.Depth == 0 {
		l.Depth = 64
	}
	if l.Elements == 0 {
		l.Elements = 100_000
	}
	if l.Attributes == 0 {
		l.Attributes = 64
	}
	return l
}

// ErrTooBig is in the chain of errors for messages beyond the limits.
var ErrTooBig = errors.New("message exceeds a limit")

// Attr is an attribute that is not a namespace declaration.
type Attr struct {
	Space, Prefix, Local, Value string
}

// Element is one element of a message. Space is the namespace's name.
type Element struct {
	Space, Local string
	Attrs        []Attr
	Text         string
	Kids         []*Element
	scope        *scope
}

// scope holds the namespace declarations of one element and links to its parent's.
type scope struct {
	prefixes map[string]string
	outer    *scope
}

func (s *scope) lookup(prefix string) (string, bool) {
	if prefix == "xml" {
		return "http://www.w3.org/XML/1998/namespace", true
	}
	for ; s != nil; s = s.outer {
		if space, found := s.prefixes[prefix]; found {
			return space, true
		}
	}
	return "", prefix == ""
}

// Namespace resolves a prefix at the element; the prefix "" is the default namespace.
func (e *Element) Namespace(prefix string) (space string, found bool) { return e.scope.lookup(prefix) }

// Bindings returns all prefixes in scope, the default namespace excluded.
func (e *Element) Bindings() map[string]string {
	all := map[string]string{}
	for s := e.scope; s != nil; s = s.outer {
		for prefix, space := range s.prefixes {
			if _, inner := all[prefix]; !inner && prefix != "" {
				all[prefix] = space
			}
		}
	}
	return all
}

// Attr returns the value of an attribute.
func (e *Element) Attr(space, local string) (value string, found bool) {
	for _, a := range e.Attrs {
		if a.Space == space && a.Local == local {
			return a.Value, true
		}
	}
	return "", false
}

// Kid returns the first child with a name, or nil. A nil element has none.
func (e *Element) Kid(space, local string) *Element {
	if e == nil {
		return nil
	}
	for _, k := range e.Kids {
		if k.Local == local && k.Space == space {
			return k
		}
	}
	return nil
}

// Value is the text without surrounding white space.
func (e *Element) Value() string { return strings.Trim(e.Text, " \t\r\n") }

// decoder builds one tree.
type decoder struct {
	limits   Limits
	elements int
	stack    []*Element
	names    []xml.Name // raw, prefix and local name
	root     *Element
}

// Parse decodes one message.
func Parse(message []byte, limits Limits) (*Element, error) {
	d := &decoder{limits: limits.withDefaults()}
	raw := xml.NewDecoder(bytes.NewReader(message))
	for {
		token, err := raw.RawToken()
		if err == io.EOF {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("parse XML: %w", err)
		}
		if err := d.take(token); err != nil {
			return nil, fmt.Errorf("parse XML, line %d: %w", line(message, raw.InputOffset()), err)
		}
	}
	switch {
	case len(d.stack) > 0:
		return nil, fmt.Errorf("parse XML: element %s is not closed", d.stack[len(d.stack)-1].Local)
	case d.root == nil:
		return nil, errors.New("parse XML: no element")
	}
	return d.root, nil
}

func line(message []byte, offset int64) int { return 1 + bytes.Count(message[:offset], []byte("\n")) }

func (d *decoder) take(token xml.Token) error {
	switch t := token.(type) {
	case xml.StartElement:
		return d.start(t)
	case xml.EndElement:
		return d.end(t)
	case xml.CharData:
		return d.text(t)
	case xml.Directive:
		return errors.New("a document type declaration is not allowed")
	case xml.ProcInst:
		if t.Target != "xml" {
			return fmt.Errorf("a processing instruction (%s) is not allowed", t.Target)
		}
	}
	return nil
}

func (d *decoder) start(t xml.StartElement) error {
	if d.elements++; d.elements > d.limits.Elements {
		return fmt.Errorf("%w: more than %d elements", ErrTooBig, d.limits.Elements)
	}
	if len(d.stack) >= d.limits.Depth {
		return fmt.Errorf("%w: elements nested deeper than %d", ErrTooBig, d.limits.Depth)
	}
	if len(t.Attr) > d.limits.Attributes {
		return fmt.Errorf("%w: more than %d attributes", ErrTooBig, d.limits.Attributes)
	}
	if d.root != nil && len(d.stack) == 0 {
		return errors.New("a second element follows the message")
	}
	e := &Element{Local: t.Name.Local}
	var outer *scope
	if len(d.stack) > 0 {
		outer = d.stack[len(d.stack)-1].scope
	}
	e.scope = declare(outer, t.Attr)
	if err := e.resolve(t); err != nil {
		return err
	}
	if len(d.stack) == 0 {
		d.root = e
	} else {
		parent := d.stack[len(d.stack)-1]
		if parent.Value() != "" {
			return fmt.Errorf("element %s mixes text and elements", parent.Local)
		}
		parent.Text = ""
		parent.Kids = append(parent.Kids, e)
	}
	d.stack, d.names = append(d.stack, e), append(d.names, t.Name)
	return nil
}

// declare returns the scope of an element with these attributes.
func declare(outer *scope, attrs []xml.Attr) *scope {
	var own map[string]string
	for _, a := range attrs {
		prefix, declares := a.Name.Local, a.Name.Space == "xmlns"
		if a.Name.Space == "" && a.Name.Local == "xmlns" {
			prefix, declares = "", true
		}
		if !declares {
			continue
		}
		if own == nil {
			own = map[string]string{}
		}
		own[prefix] = a.Value
	}
	if own == nil {
		return outer
	}
	return &scope{own, outer}
}

// resolve sets names and attributes; an attribute without a prefix has no namespace.
func (e *Element) resolve(t xml.StartElement) error {
	var found bool
	if e.Space, found = e.scope.lookup(t.Name.Space); !found {
		return fmt.Errorf("prefix %s of element %s is not declared", t.Name.Space, t.Name.Local)
	}
	for _, a := range t.Attr {
		if a.Name.Space == "xmlns" || a.Name.Space == "" && a.Name.Local == "xmlns" {
			continue
		}
		attr := Attr{Prefix: a.Name.Space, Local: a.Name.Local, Value: a.Value}
		if attr.Prefix != "" {
			if attr.Space, found = e.scope.lookup(attr.Prefix); !found {
				return fmt.Errorf("prefix %s of attribute %s is not declared", attr.Prefix, attr.Local)
			}
		}
		if _, twice := e.Attr(attr.Space, attr.Local); twice {
			return fmt.Errorf("attribute %s appears twice", attr.Local)
		}
		e.Attrs = append(e.Attrs, attr)
	}
	return nil
}

func (d *decoder) end(t xml.EndElement) error {
	if len(d.stack) == 0 {
		return fmt.Errorf("end tag %s without a start tag", t.Name.Local)
	}
	last := len(d.stack) - 1
	if d.names[last] != t.Name {
		return fmt.Errorf("end tag %s closes element %s", t.Name.Local, d.names[last].Local)
	}
	d.stack, d.names = d.stack[:last], d.names[:last]
	return nil
}

func (d *decoder) text(t xml.CharData) error {
	blank := len(bytes.Trim(t, " \t\r\n")) == 0
	if len(d.stack) == 0 {
		if !blank && !bytes.Equal(t, []byte("\ufeff")) {
			return errors.New("text outside the message")
		}
		return nil
	}
	e := d.stack[len(d.stack)-1]
	if len(e.Kids) == 0 {
		e.Text += string(t)
	} else if !blank {
		return fmt.Errorf("element %s mixes text and elements", e.Local)
	}
	return nil
}
