// SPDX-License-Identifier: Apache-2.0

package yamlfile

import (
	"bytes"
	"unicode/utf8"

	yaml "go.yaml.in/yaml/v3"
)

// Limits of a file: far above normal use, and low enough to bound time and memory.
const (
	MaxFile  = 256 << 10 // bytes, for formats without a limit of their own
	maxNodes = 100_000   // values once aliases are expanded, likewise
	maxLine  = 4096      // bytes of a line
	maxDepth = 32        // levels of nesting
)

// Limits holds the limits of a format with large files.
type Limits struct {
	Octets int  // of text
	Values int  // keys' values and lists' items, once aliases are expanded
	Line   bool // whether every value must be one line, for display in tables
}

// Kind is the kind of a node.
type Kind int

const (
	Null Kind = iota
	Scalar
	Mapping
	Sequence
)

func (k Kind) String() string {
	return [...]string{"nothing", "a single value", "a mapping (key: value)", "a list"}[k]
}

// Node is a value of the file. Aliases share nodes, so nodes must not be changed.
type Node struct {
	Kind    Kind
	Place   Place
	Text    string  // of a Scalar, without quotes
	Quoted  bool    // a Scalar with quotes
	Entries []Entry // of a Mapping, in the file's order
	Items   []*Node // of a Sequence
	size    int     // nodes in here, itself included, aliases expanded
}

// Size returns the number of values in the node, itself included, with aliases expanded.
func (n *Node) Size() int { return n.size }

// Entry is one key of a mapping.
type Entry struct {
	Key   string
	Place Place // of the key
	Value *Node
}

// Tree is a file that is well-formed YAML.
type Tree struct {
	Root *Node
}

// Parse parses a text of up to MaxFile bytes. Its errors are faults of status Usage with file, line
// and column.
func Parse(filename string, text []byte) (*Tree, error) {
	return ParseWithin(Limits{Octets: MaxFile, Values: maxNodes}, filename, text)
}

// ParseWithin is Parse with other limits.
func ParseWithin(limits Limits, filename string, text []byte) (*Tree, error) {
	var p Problems
	c := &converter{file: filename, problems: &p, limits: limits, anchors: map[*yaml.Node]*Node{}}
	if c.acceptable(text) {
		if root := c.parse(text); root != nil && p.Len() == 0 {
			return &Tree{root}, nil
		}
	}
	return nil, p.Err(correct)
}

// acceptable checks the raw text.
func (c *converter) acceptable(text []byte) bool {
	whole := Place{File: c.file}
	switch {
	case len(text) > c.limits.Octets:
		c.problems.Add(whole, "split the file, or write it with fewer words", "the file has %d octets; %d are allowed", len(text), c.limits.Octets)
	case !utf8.Valid(text):
		c.problems.Add(whole, "save the file as UTF-8", "the file is not UTF-8 text")
	case len(bytes.TrimSpace(text)) == 0:
		c.problems.Add(whole, tryFormats, "the file is empty")
	default:
		number := 0
		for line := range bytes.Lines(text) {
			number++
			if n := len(bytes.TrimSuffix(line, []byte("\n"))); n > maxLine {
				c.problems.Add(Place{c.file, number, maxLine + 1}, "break the line", "the line has %d octets; %d are allowed", n, maxLine)
			}
		}
		if signs(text) > signsPerValue*c.limits.Values {
			c.problems.Add(whole, "split the file", "the file has far more than %d values", c.limits.Values)
		}
	}
	return c.problems.Len() == 0
}

// signsPerValue is the maximum number of separators per value: texts contain colons and commas too.
const signsPerValue = 4

// signs counts characters that may start or separate values. It bounds the memory of the YAML
// library, which builds all nodes first.
func signs(text []byte) (n int) {
	for line := range bytes.Lines(text) {
		line = bytes.TrimLeft(line, " ")
		if len(line) > 0 && line[0] == '#' {
			continue
		}
		for _, b := range line {
			switch b {
			case '-', ':', ',', '[', '{', '?':
				n++
			}
		}
	}
	return n
}
