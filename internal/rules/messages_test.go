// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// fillers are words in the place of a noun. scripts/prose checks documents and comments for the
// same words.
var fillers = regexp.MustCompile(`(?i)\b(what|who|whose|whom|whoever|whatever|told|tells?|of which|of those|by delay|refusals?|in force|foresees?|sent again|spines?)\b`)

// Messages, help texts and documentation tags are prose: string literals of three words or more.
func TestMessagesNameThings(t *testing.T) {
	files := token.NewFileSet()
	for _, name := range tracked(t, ".go") {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(files, filepath.Join(root, name), nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			literal, is := n.(*ast.BasicLit)
			if !is || literal.Kind != token.STRING || strings.Count(literal.Value, " ") < 2 {
				return true
			}
			if found := fillers.FindString(literal.Value); found != "" {
				t.Errorf("%s:%d: a message says %q: name the thing", name, files.Position(literal.Pos()).Line, found)
			}
			return true
		})
	}
}
