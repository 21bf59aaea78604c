// SPDX-License-Identifier: Apache-2.0

package schema

import (
	"fmt"
	"slices"
	"strings"

	"github.com/openconfig/goyang/pkg/yang"
)

// resolve maps the prefixes of a module's own text.
func (m *Module) resolve(s *Set) Resolve {
	return func(prefix string) (string, bool) {
		if prefix == "" {
			return m.Namespace, true
		}
		if other := s.byPrefix(prefix, m); other != nil {
			return other.Namespace, true
		}
		return "", false
	}
}

// byPrefix returns the module that a prefix names within a module's text.
func (s *Set) byPrefix(prefix string, within *Module) *Module {
	if prefix == within.Prefix {
		return within
	}
	if parsed, is := within.entry.Node.(*yang.Module); is {
		for _, i := range parsed.Import {
			if i.Prefix != nil && i.Prefix.Name == prefix {
				return s.byName[i.Name]
			}
		}
	}
	for _, m := range s.byName { // a grouping's text may come from another module
		if m.Prefix == prefix {
			return m
		}
	}
	return nil
}

// identity finds an identity by PREFIX:NAME or NAME.
func (s *Set) identity(text string, resolve Resolve) (*yang.Identity, *Module, error) {
	prefix, name, qualified := strings.Cut(text, ":")
	if !qualified {
		prefix, name = "", text
	}
	space, found := resolve(prefix)
	module := s.bySpace[space]
	if !found || module == nil || module.identities[name] == nil {
		return nil, nil, fmt.Errorf("there is no identity %s", text)
	}
	return module.identities[name], module, nil
}

// identityref accepts a prefix that the message declares. Without one, or with an unknown one, the
// name decides if it is unique among the identities of the base.
func (t *Type) identityref(text string, resolve Resolve) (Value, error) {
	text = trim(text)
	base := t.yang.IdentityBase
	if identity, module, err := t.set.identity(text, resolve); err == nil {
		if slices.Contains(base.Values, identity) {
			return Value{Text: module.Name + ":" + identity.Name}, nil
		}
	}
	var all, names []string
	for _, identity := range base.Values {
		module := yang.RootNode(identity).Name
		names = append(names, identity.Name)
		if identity.Name == local(text) {
			all = append(all, module+":"+identity.Name)
		}
	}
	prefix, _, qualified := strings.Cut(text, ":")
	_, known := resolve(prefix)
	if len(all) == 1 && (!qualified || !known) {
		return Value{Text: all[0]}, nil
	}
	if len(names) > 8 {
		names = append(names[:8], "...")
	}
	return Value{}, fmt.Errorf("%q is no identity derived from %s (%s)", text, base.Name, strings.Join(names, ", "))
}

// Holds reports whether the identity, as MODULE:NAME, is the condition's or derives from it.
func (w *When) Holds(value string) bool {
	name := func(i *yang.Identity) string { return yang.RootNode(i).Name + ":" + i.Name }
	if value == name(w.Identity) {
		return true
	}
	return slices.ContainsFunc(w.Identity.Values, func(i *yang.Identity) bool { return value == name(i) })
}

// SplitIdentity returns module and name of an identity in canonical form.
func SplitIdentity(value string) (module, name string) {
	module, name, _ = strings.Cut(value, ":")
	return module, name
}
