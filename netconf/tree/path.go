// SPDX-License-Identifier: Apache-2.0

package tree

import (
	"strings"

	"weir/netconf/rpcerr"
	"weir/netconf/schema"
)

// Path is the place of an instance. A nil Path is the root.
type Path struct {
	Parent *Path
	Schema *schema.Node
	Key    string // of a list or leaf-list entry; its values joined by NUL
}

// To returns the path of a child.
func (p *Path) To(n *Node) *Path { return &Path{p, n.Schema, n.key} }

// down returns the path of a child that may not exist.
func (p *Path) down(s *schema.Node, key string) *Path { return &Path{p, s, key} }

// Steps returns the path from the root down.
func (p *Path) Steps() []*Path {
	if p == nil {
		return nil
	}
	return append(p.Parent.Steps(), p)
}

// String is an XPath expression with the modules' own prefixes.
func (p *Path) String() string {
	text, _ := p.XPath()
	return text
}

// XPath returns the path as an XPath expression, and the prefixes that it uses.
func (p *Path) XPath() (string, map[string]string) {
	var b strings.Builder
	prefixes := map[string]string{}
	for _, step := range p.Steps() {
		m := step.Schema.Module
		prefixes[m.Prefix] = m.Namespace
		b.WriteString("/" + m.Prefix + ":" + step.Schema.Name)
		switch step.Schema.Kind {
		case schema.List:
			for i, value := range strings.Split(step.Key, "\x00") {
				if i < len(step.Schema.Keys) && value != "" {
					b.WriteString("[" + m.Prefix + ":" + step.Schema.Keys[i] + "=" + quote(value) + "]")
				}
			}
		case schema.LeafList:
			b.WriteString("[.=" + quote(step.Key) + "]")
		}
	}
	return b.String(), prefixes
}

func quote(value string) string {
	if strings.Contains(value, "'") {
		return `"` + value + `"`
	}
	return "'" + value + "'"
}

// fail returns an error at the path.
func (p *Path) fail(tag rpcerr.Tag, format string, args ...any) *rpcerr.Error {
	text, prefixes := p.XPath()
	return rpcerr.New(tag, format, args...).At(text, prefixes)
}

// Fail returns an error at the path for callers that check values themselves.
func (p *Path) Fail(tag rpcerr.Tag, format string, args ...any) *rpcerr.Error {
	return p.fail(tag, format, args...)
}
