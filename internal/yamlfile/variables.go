// SPDX-License-Identifier: Apache-2.0

package yamlfile

import (
	"fmt"
	"strings"

	"weir/internal/nearest"
)

// expand replaces the variables in a scalar. It returns false after a mistake.
func (v *Variables) expand(n *Node, p *Problems) (string, bool) {
	if v == nil || !strings.Contains(n.Text, "${") {
		return n.Text, true
	}
	text, err := v.Expand(n.Text)
	if err != nil {
		p.Add(n.Place, "", "%v", err)
		return "", false
	}
	return text, true
}

// Expand replaces each ${name} in text by its value; "$${" stands for "${". Values are not searched
// again.
func (v *Variables) Expand(text string) (string, error) {
	var b strings.Builder
	for {
		before, after, found := strings.Cut(text, "${")
		if !found {
			b.WriteString(text)
			return b.String(), nil
		}
		if literal, escaped := strings.CutSuffix(before, "$"); escaped {
			b.WriteString(literal + "${")
			text = after
			continue
		}
		name, rest, closed := strings.Cut(after, "}")
		if !closed {
			return "", fmt.Errorf("${%s has no closing brace", firstLine(after))
		}
		value, known := v.Values[name]
		if !known {
			return "", fmt.Errorf("unknown parameter ${%s}%s", name, v.known(name))
		}
		if v.Used != nil {
			v.Used[name] = true
		}
		b.WriteString(before + value)
		text = rest
	}
}

func (v *Variables) known(name string) string {
	if len(v.Names) == 0 {
		return "; the file has no parameters"
	}
	if hint := nearest.Hint(name, v.Names); hint != "" {
		return hint
	}
	return "; known: " + strings.Join(v.Names, ", ")
}
