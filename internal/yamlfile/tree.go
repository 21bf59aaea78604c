package yamlfile

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	yaml "github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/token"
)

// Bounds of a file: far above what people write, and low enough that no file makes its reader slow or large.
const (
	MaxFile  = 256 << 10 // octets of text, where a format has no bounds of its own
	maxNodes = 100_000   // values once aliases are expanded, likewise
	maxLine  = 4096      // octets of a line, which bounds nesting by columns
	maxDepth = 32        // levels of nesting
)

// Limits are the bounds of a format whose files grow with what they describe.
type Limits struct {
	Octets int // of text
	Values int // keys' values and lists' items, once aliases are expanded
}

// Kind is what a node holds.
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

// Node is a value of the file. Nodes are shared where the file uses an alias and must not be changed.
type Node struct {
	Kind    Kind
	Place   Place
	Text    string  // of a Scalar, without quotes
	Entries []Entry // of a Mapping, in the file's order
	Items   []*Node // of a Sequence
	size    int     // nodes in here, itself included, aliases expanded
}

// Size is the number of values in the node, itself included, with aliases expanded.
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

// Parse reads the text of a file of up to MaxFile octets. Its errors are faults of status Usage with file, line and column.
func Parse(filename string, text []byte) (*Tree, error) {
	return ParseWithin(Limits{MaxFile, maxNodes}, filename, text)
}

// ParseWithin is Parse with other bounds.
func ParseWithin(limits Limits, filename string, text []byte) (*Tree, error) {
	return parseIn(limits, partSize, filename, text)
}

func parseIn(limits Limits, partSize int, filename string, text []byte) (*Tree, error) {
	var p Problems
	c := &converter{file: filename, problems: &p, limits: limits, partSize: partSize, anchors: map[string]*Node{}}
	if c.acceptable(text) {
		if root := c.parse(text); root != nil && p.Len() == 0 {
			return &Tree{root}, nil
		}
	}
	return nil, p.Err(correct)
}

// acceptable checks what can be told from the text alone.
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
		for i, line := range bytes.Split(text, []byte("\n")) {
			if len(line) > maxLine {
				c.problems.Add(Place{c.file, i + 1, maxLine + 1}, "break the line", "the line has %d octets; %d are allowed", len(line), maxLine)
			}
		}
	}
	return c.problems.Len() == 0
}

// parse runs the YAML library, which may panic on input that nobody writes: that is one more mistake of the file.
func (c *converter) parse(text []byte) (root *Node) {
	defer func() {
		if caught := recover(); caught != nil {
			c.problems.Add(Place{File: c.file}, "write it as plain keys, values and lists", "not readable as YAML: %v", caught)
			root = nil
		}
	}()
	tokens := lexer.Tokenize(string(text))
	if deep := tooDeep(tokens); deep != nil {
		c.problems.Add(c.at(deep), "", "nested more than %d levels deep", maxDepth)
		return nil
	}
	f, rest, err := parse(cut(tokens, c.partSize))
	if err != nil {
		c.syntaxError(err)
		return nil
	}
	c.rest = rest
	var bodies []ast.Node
	for _, doc := range f.Docs {
		if doc != nil && doc.Body != nil && doc.Body.Type() != ast.CommentType {
			bodies = append(bodies, doc.Body)
		}
	}
	switch len(bodies) {
	case 0:
		c.problems.Add(Place{File: c.file}, tryFormats, "the file has only comments")
		return nil
	case 1:
		root = c.node(bodies[0], 0)
		for owner := range c.rest {
			if c.problems.Len() > 0 {
				break // a mistake was noted instead
			}
			c.problems.Add(c.at(owner), "write it as plain keys, values and lists", "not readable as one mapping")
		}
		return root
	}
	c.problems.Add(c.at(bodies[1].GetToken()), "put each document in a file of its own", "a second YAML document begins here")
	return nil
}

// tooDeep returns the token at which brackets, or markers on one line, nest too deep for a recursive reader.
func tooDeep(tokens token.Tokens) *token.Token {
	flow, markers, line := 0, 0, 0
	for _, t := range tokens {
		if t.Position != nil && t.Position.Line != line {
			line, markers = t.Position.Line, 0
		}
		switch t.Type {
		case token.MappingStartType, token.SequenceStartType:
			flow++
		case token.MappingEndType, token.SequenceEndType:
			flow--
		case token.SequenceEntryType, token.MappingKeyType, token.AnchorType, token.TagType:
			markers++
		}
		if flow > maxDepth || markers > maxDepth {
			return t
		}
	}
	return nil
}

func (c *converter) syntaxError(err error) {
	var syntax *yaml.SyntaxError
	if !errors.As(err, &syntax) {
		c.problems.Add(Place{File: c.file}, "", "not valid YAML: %s", firstLine(err.Error()))
		return
	}
	c.problems.Add(c.at(syntax.Token), "look for a missing colon, quote or bracket, and for wrong indentation", "not valid YAML: %s", firstLine(syntax.Message))
}

func firstLine(s string) string {
	s, _, _ = strings.Cut(s, "\n")
	return s
}

func (c *converter) at(t *token.Token) Place {
	if t == nil || t.Position == nil {
		return Place{File: c.file}
	}
	return Place{c.file, t.Position.Line, t.Position.Column}
}

// converter turns the library's tree into ours.
type converter struct {
	file     string
	problems *Problems
	limits   Limits
	partSize int                                      // entries
	rest     map[*token.Token][]*ast.MappingValueNode // of wide mappings, by their first key
	anchors  map[string]*Node
	total    int
}

func (c *converter) complain(n ast.Node, try, format string, args ...any) *Node {
	c.problems.Add(c.at(n.GetToken()), try, format, args...)
	return nil
}

// node converts one value; nil means that a mistake was noted.
func (c *converter) node(n ast.Node, depth int) *Node {
	if n == nil {
		return &Node{Kind: Null, size: 1}
	}
	if depth > maxDepth {
		return c.complain(n, "", "nested more than %d levels deep", maxDepth)
	}
	if !c.room(n, 1) {
		return nil
	}
	out := &Node{Kind: Scalar, Place: c.at(n.GetToken()), size: 1}
	switch n := n.(type) {
	case *ast.NullNode:
		out.Kind = Null
	case *ast.StringNode:
		out.Text = n.Value
	case *ast.LiteralNode:
		out.Text = n.Value.Value
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.InfinityNode, *ast.NanNode:
		out.Text = n.GetToken().Value
	case *ast.MappingNode:
		return c.mapping(out, n.Values, depth)
	case *ast.MappingValueNode:
		return c.mapping(out, []*ast.MappingValueNode{n}, depth)
	case *ast.SequenceNode:
		out.Kind = Sequence
		for _, v := range n.Values {
			if item := c.node(v, depth+1); item != nil {
				c.place(item, n)
				out.Items = append(out.Items, item)
				out.size += item.size
			}
		}
	case *ast.AnchorNode:
		v := c.node(n.Value, depth+1)
		if v != nil {
			c.place(v, n)
			c.anchors[n.Name.GetToken().Value] = v
		}
		return v
	case *ast.AliasNode:
		return c.alias(n)
	default:
		return c.complain(n, "write the value plainly", "%s is not supported here", describe(n))
	}
	return out
}

// place gives a value that is not written out ("key:") the position of what holds it.
func (c *converter) place(v *Node, holder ast.Node) {
	if v.Place.File == "" {
		v.Place = c.at(holder.GetToken())
	}
}

func describe(n ast.Node) string {
	switch n.(type) {
	case *ast.TagNode:
		return "a YAML tag"
	case *ast.DirectiveNode:
		return "a YAML directive"
	case *ast.MergeKeyNode:
		return "a merge key"
	}
	return fmt.Sprintf("a YAML %s", strings.ToLower(n.Type().String()))
}

func (c *converter) alias(n *ast.AliasNode) *Node {
	name := n.Value.GetToken().Value
	v, known := c.anchors[name]
	if !known {
		return c.complain(n, "define the anchor before it is used", "no anchor &%s above this line", name)
	}
	if !c.room(n, v.size) {
		return nil
	}
	return v
}

// room counts values, and complains of the first that is beyond the limit.
func (c *converter) room(n ast.Node, values int) bool {
	before := c.total
	if c.total += values; c.total <= c.limits.Values {
		return true
	}
	if before <= c.limits.Values {
		c.complain(n, "use fewer aliases", "the file has more than %d values once its aliases are expanded", c.limits.Values)
	}
	return false
}

func (c *converter) mapping(out *Node, values []*ast.MappingValueNode, depth int) *Node {
	out.Kind = Mapping
	if len(values) > 0 {
		first := values[0].Key.GetToken()
		out.Place = c.at(first)
		values = append(values, c.rest[first]...)
		delete(c.rest, first)
	}
	seen := map[string]Place{}
	var merged []*Node
	for _, v := range values {
		if v.Key.IsMergeKey() {
			if base := c.node(v.Value, depth+1); base != nil {
				merged = append(merged, base)
			}
			continue
		}
		key, place, ok := c.key(v.Key)
		if !ok {
			continue
		}
		if first, twice := seen[key]; twice {
			c.problems.Add(place, "keep one of the two", "key %q is given twice; the first is on line %d", key, first.Line)
			continue
		}
		seen[key] = place
		value := c.node(v.Value, depth+1)
		if value == nil {
			continue
		}
		c.place(value, v.Key)
		out.Entries = append(out.Entries, Entry{key, place, value})
		out.size += value.size
	}
	for _, base := range merged {
		c.merge(out, base, seen)
	}
	return out
}

// key returns the text of a mapping's key.
func (c *converter) key(k ast.MapKeyNode) (string, Place, bool) {
	t := k.GetToken()
	switch k := k.(type) {
	case *ast.StringNode:
		return k.Value, c.at(t), true
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.NullNode, *ast.InfinityNode, *ast.NanNode:
		return t.Value, c.at(t), true
	}
	c.problems.Add(c.at(t), "", "a key must be a plain word")
	return "", Place{}, false
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
		seen[e.Key] = e.Place
		out.Entries = append(out.Entries, e)
		out.size += e.Value.size
	}
}
