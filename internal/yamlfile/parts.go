package yamlfile

import (
	"errors"
	"fmt"
	"math"

	yaml "github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

// The library's parser calls itself for each entry of a block mapping and copies all entries that follow, so its time and
// its stack grow with the square and the number of the entries. Wide mappings are therefore parsed in parts: the first
// entries stay where they are, and the rest is cut out of the tokens in groups and given back when the tree is converted.
//
//	scopes:
//	  a: 1    <- owner, stays
//	  b: 2    <- stays
//	  c: 3    <- a part of the owner a: c and d
//	  d: 4
//	  e: 5    <- the next part
const partSize = 128 // entries

// part is entries that belong behind those of the mapping whose first key is owner.
type part struct {
	owner  *token.Token
	tokens token.Tokens
}

// block is a block mapping that is being read, or another block that begins at this column and is never cut.
type block struct {
	column  int
	owner   *token.Token // first key; nil where the mapping must not be cut
	entries int          // in the current part
	out     *part        // where its tokens go
}

// cut divides tokens into the main part, the first, and parts of at most size entries.
func cut(tokens token.Tokens, size int) []*part {
	c := cutter{size: size, parts: []*part{{}}}
	c.blocks = []block{{out: c.parts[0]}}
	flow, line, begins := 0, 0, true
	for i, t := range tokens {
		switch t.Type {
		case token.CommentType:
			continue // the parser leaves them out too
		case token.DocumentHeaderType, token.DocumentEndType, token.DirectiveType:
			c.blocks = c.blocks[:1]
		}
		if flow == 0 && begins || flow == 0 && t.Position.Line > line {
			c.begin(t, plainKey(tokens[i:]))
		}
		line, begins = t.Position.Line, false
		switch t.Type {
		case token.MappingStartType, token.SequenceStartType:
			flow++
		case token.MappingEndType, token.SequenceEndType:
			flow--
		case token.SequenceEntryType:
			begins = true // "- key: value" begins a mapping in the middle of the line
		case token.LiteralType, token.FoldedType:
			line = math.MaxInt // the block scalar's text is the next token, and begins nothing
		}
		out := c.blocks[len(c.blocks)-1].out
		out.tokens = append(out.tokens, t)
	}
	return c.parts
}

type cutter struct {
	size   int
	parts  []*part
	blocks []block // those that are open, the innermost last
}

// begin is told of each token that may begin an entry, the first of its line.
func (c *cutter) begin(t *token.Token, key bool) {
	column := t.Position.Column
	for c.blocks[len(c.blocks)-1].column > column {
		c.blocks = c.blocks[:len(c.blocks)-1]
	}
	top := &c.blocks[len(c.blocks)-1]
	switch {
	case top.column < column:
		begun := block{column: column, entries: 1, out: top.out}
		if key {
			begun.owner = t
		}
		c.blocks = append(c.blocks, begun)
	case key && top.owner != nil && top.entries >= c.size:
		top.out, top.entries = &part{owner: top.owner}, 1
		c.parts = append(c.parts, top.out)
	default:
		top.entries++
	}
}

// plainKey says whether the tokens begin with a word and a colon on the same line: an entry that can stand alone.
func plainKey(tokens token.Tokens) bool {
	if len(tokens) < 2 || tokens[1].Type != token.MappingValueType || tokens[1].Position.Line != tokens[0].Position.Line {
		return false
	}
	switch tokens[0].Type {
	case token.StringType, token.IntegerType, token.SingleQuoteType, token.DoubleQuoteType:
		return true
	}
	return false
}

// parse parses what cut has divided: the file of the main part, and the entries of the others by their owner. Of several
// errors it returns the first in the file's order.
func parse(parts []*part) (f *ast.File, rest map[*token.Token][]*ast.MappingValueNode, err error) {
	rest = map[*token.Token][]*ast.MappingValueNode{}
	for i, p := range parts {
		parsed, problem := parser.Parse(p.tokens, 0, parser.AllowDuplicateMapKey())
		switch {
		case problem != nil:
			err = earlier(err, problem)
		case i == 0:
			f = parsed
		default:
			entries, ok := parsed.Docs[0].Body.(*ast.MappingNode)
			if !ok || len(parsed.Docs) != 1 {
				return nil, nil, fmt.Errorf("line %d begins no list of keys and values", p.tokens[0].Position.Line)
			}
			rest[p.owner] = append(rest[p.owner], entries.Values...)
		}
	}
	return f, rest, err
}

// earlier returns the error that comes first in the file; one without a place comes last.
func earlier(a, b error) error {
	at := func(err error) (line, column int) {
		var syntax *yaml.SyntaxError
		if !errors.As(err, &syntax) || syntax.Token == nil || syntax.Token.Position == nil {
			return math.MaxInt, 0
		}
		return syntax.Token.Position.Line, syntax.Token.Position.Column
	}
	if a == nil {
		return b
	}
	lineA, columnA := at(a)
	lineB, columnB := at(b)
	if lineB < lineA || lineB == lineA && columnB < columnA {
		return b
	}
	return a
}
