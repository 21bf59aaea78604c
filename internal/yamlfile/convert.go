// SPDX-License-Identifier: Apache-2.0

package yamlfile

import (
	"bytes"
	"errors"
	"io"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	yaml "go.yaml.in/yaml/v3"
)

// converter converts the library's tree.
type converter struct {
	file     string
	problems *Problems
	limits   Limits
	anchors  map[*yaml.Node]*Node // values with an anchor, once they are complete
	total    int
}

// parse runs the YAML library. A panic of the library counts as a mistake in the file.
func (c *converter) parse(text []byte) (root *Node) {
	defer func() {
		if caught := recover(); caught != nil {
			c.problems.Add(Place{File: c.file}, "write it as plain keys, values and lists", "not readable as YAML: %v", caught)
			root = nil
		}
	}()
	var first, second yaml.Node
	documents := yaml.NewDecoder(bytes.NewReader(text))
	switch err := documents.Decode(&first); {
	case errors.Is(err, io.EOF):
		c.problems.Add(Place{File: c.file}, tryFormats, "the file has only comments")
		return nil
	case err != nil:
		c.syntaxError(text, err)
		return nil
	}
	switch err := documents.Decode(&second); {
	case err == nil:
		c.complain(&second, "put each document in a file of its own", "a second YAML document begins here")
		return nil
	case !errors.Is(err, io.EOF):
		c.syntaxError(text, err)
		return nil
	}
	return c.node(first.Content[0], 0)
}

// syntaxError converts an error of the library, "yaml: line 3: reason", to a mistake without
// column.
func (c *converter) syntaxError(text []byte, err error) {
	message := firstLine(strings.TrimPrefix(err.Error(), "yaml: "))
	place := Place{File: c.file}
	if rest, found := strings.CutPrefix(message, "line "); found {
		number, what, _ := strings.Cut(rest, ": ")
		if line, bad := strconv.Atoi(number); bad == nil {
			place.Line, message = line, what
		}
	}
	if name, unknown := strings.CutPrefix(message, "unknown anchor '"); unknown {
		name, _, _ = strings.Cut(name, "'")
		c.problems.Add(c.find(text, "*"+name), "define the anchor before it is used", "no anchor &%s above this line", name)
		return
	}
	if message == "control characters are not allowed" {
		c.problems.Add(c.find(text, controlIn(text)), "take it out", "not valid YAML: %s", message)
		return
	}
	if strings.HasPrefix(message, "exceeded max depth") {
		c.problems.Add(place, "", "nested more than %d levels deep", maxDepth)
		return
	}
	if fromParser(message) {
		place.Line++ // the library counts these from 0, and leaves 0 out
	}
	place.Line = min(place.Line, 1+bytes.Count(bytes.TrimRight(text, "\n"), []byte("\n"))) // its end of file is a line further
	c.problems.Add(place, "look for a missing colon, quote or bracket, and for wrong indentation", "not valid YAML: %s", message)
}

// fromParser reports whether the library's parser found the mistake, and not its scanner.
func fromParser(message string) bool {
	return strings.HasPrefix(message, "did not find expected") || strings.HasPrefix(message, "found duplicate %") || strings.HasPrefix(message, "found undefined tag")
}

// controlIn is the first character that YAML does not allow.
func controlIn(text []byte) string {
	i := bytes.IndexFunc(text, func(r rune) bool {
		return r < ' ' && r != '\t' && r != '\n' && r != '\r' || r == 0x7f || 0x80 <= r && r < 0xa0 && r != 0x85
	})
	if i < 0 {
		return "\x00"
	}
	_, size := utf8.DecodeRune(text[i:])
	return string(text[i : i+size])
}

// find returns the place where a word occurs first.
func (c *converter) find(text []byte, word string) Place {
	before, _, found := bytes.Cut(text, []byte(word))
	if !found {
		return Place{File: c.file}
	}
	return Place{c.file, 1 + bytes.Count(before, []byte("\n")), len(before) - bytes.LastIndexByte(before, '\n')}
}

func (c *converter) at(n *yaml.Node) Place { return Place{c.file, n.Line, n.Column} }

func (c *converter) complain(n *yaml.Node, try, format string, args ...any) *Node {
	c.problems.Add(c.at(n), try, format, args...)
	return nil
}

// node converts one value; nil means that a mistake was noted.
func (c *converter) node(n *yaml.Node, depth int) *Node {
	switch {
	case depth > maxDepth:
		return c.complain(n, "", "nested more than %d levels deep", maxDepth)
	case n.Kind == yaml.AliasNode:
		return c.alias(n)
	case tagged(n):
		return c.complain(n, "write the value plainly", "a YAML tag is not supported here")
	case !c.within(n, 1), n.Kind == yaml.ScalarNode && !c.shown(n, !c.limits.Line):
		return nil
	}
	out := &Node{Kind: Scalar, Place: c.at(n), Text: n.Value, size: 1}
	switch n.Kind {
	case yaml.MappingNode:
		out.Kind = Mapping
		c.mapping(out, n.Content, depth)
	case yaml.SequenceNode:
		out.Kind = Sequence
		c.sequence(out, n.Content, depth)
	case yaml.ScalarNode:
		out.Quoted = n.Style&(yaml.SingleQuotedStyle|yaml.DoubleQuotedStyle) != 0
		if n.ShortTag() == "!!null" {
			out.Kind, out.Text = Null, ""
		}
	}
	if n.Anchor != "" {
		c.anchors[n] = out
	}
	return out
}

// shown complains of control characters and of characters that change the reading order, in any
// notation: names of a file appear in tables of other users.
func (c *converter) shown(n *yaml.Node, lines bool) bool {
	i := strings.IndexFunc(n.Value, func(r rune) bool {
		return unicode.IsControl(r) && !(lines && (r == '\n' || r == '\t')) || unicode.Is(unicode.Bidi_Control, r)
	})
	if i < 0 {
		return true
	}
	r, _ := utf8.DecodeRuneInString(n.Value[i:])
	c.complain(n, "take it out", "%q has the control character %U", n.Value, r)
	return false
}

func tagged(n *yaml.Node) bool { return n.Style&yaml.TaggedStyle != 0 }

// alias returns the value of an anchor. An incomplete one would contain itself.
func (c *converter) alias(n *yaml.Node) *Node {
	v, known := c.anchors[n.Alias]
	if !known {
		return c.complain(n, "define the anchor before it is used", "no anchor &%s above this line", n.Value)
	}
	if !c.within(n, v.size) {
		return nil
	}
	return v
}

// within counts values and complains of the first one beyond the limit.
func (c *converter) within(n *yaml.Node, values int) bool {
	before := c.total
	if c.total += values; c.total <= c.limits.Values {
		return true
	}
	if before <= c.limits.Values {
		c.complain(n, "use fewer aliases", "the file has more than %d values once its aliases are expanded", c.limits.Values)
	}
	return false
}

func (c *converter) sequence(out *Node, items []*yaml.Node, depth int) {
	for _, v := range items {
		if c.total > c.limits.Values {
			return
		}
		if item := c.node(v, depth+1); item != nil {
			out.Items = append(out.Items, item)
			out.size += item.size
		}
	}
}

// mapping converts keys and values, which alternate in content.
func (c *converter) mapping(out *Node, content []*yaml.Node, depth int) {
	if len(content) > 0 {
		out.Place = c.at(content[0])
	}
	seen := map[string]Place{}
	var base *Node
	for i := 0; i+1 < len(content) && c.total <= c.limits.Values; i += 2 {
		key := content[i]
		place := c.at(key)
		if key.Kind != yaml.ScalarNode || key.Anchor != "" || tagged(key) {
			c.problems.Add(place, "", "a key must be a plain word")
			continue
		}
		if !c.shown(key, false) {
			continue
		}
		if first, twice := seen[key.Value]; twice {
			c.problems.Add(place, "keep one of the two", "key %q is given twice; the first is on line %d", key.Value, first.Line)
			continue
		}
		seen[key.Value] = place
		value := c.node(content[i+1], depth+1)
		switch {
		case value == nil:
		case key.ShortTag() == "!!merge":
			base = value
		default:
			out.Entries = append(out.Entries, Entry{key.Value, place, value})
			out.size += value.size
		}
	}
	if base != nil {
		c.merge(out, base, seen)
	}
}

// merge adds the entries of base ("<<: *base") that out does not have itself.
func (c *converter) merge(out, base *Node, seen map[string]Place) {
	if base.Kind != Mapping {
		c.problems.Add(base.Place, "", "a merge key (<<) needs a mapping, and this is %s", base.Kind)
		return
	}
	for _, e := range base.Entries {
		if _, have := seen[e.Key]; have {
			continue
		}
		out.Entries = append(out.Entries, e)
		out.size += e.Value.size
	}
}

func firstLine(s string) string {
	s, _, _ = strings.Cut(s, "\n")
	return s
}
