// SPDX-License-Identifier: Apache-2.0

// Package access enforces the access control model of RFC 8341 on reads, writes, operations and
// notifications.
//
// A Policy is read from the container nacm of the running datastore and never changes. A Checker is
// a policy for one user; one goroutine uses it.
package access

import (
	"slices"
	"strings"
	"sync/atomic"

	"weir/netconf/rpcerr"
	"weir/netconf/schema"
	"weir/netconf/tree"
)

// Module is the name of the access control module.
const Module = "ietf-netconf-acm"

// User is an authenticated user with the groups that the transport assigns.
type User struct {
	Name   string
	Groups []string
}

// Denials counts rejected requests; it is safe for concurrent use.
type Denials struct{ Operations, Writes, Notifications atomic.Uint32 }

// Access operations of a rule.
const (
	read   = "read"
	exec   = "exec"
	create = "create"
	update = "update"
	remove = "delete"
)

// Policy is the content of the container nacm.
type Policy struct {
	enabled, external bool
	permits           map[string]bool // defaults by access operation
	groups            map[string][]string
	lists             []ruleList
}

type ruleList struct {
	groups []string
	rules  []rule
}

type rule struct {
	module     string // "*" is any
	rpc        string // "" unless the rule is about operations
	note       string // "" unless the rule is about notifications
	path       []step // nil unless the rule is about data
	operations []string
	permit     bool
}

// step is one node of a rule's path; entries without a key match all.
type step struct {
	space, name string
	keys        map[string]string
}

// New reads the policy of a datastore.
func New(root *tree.Node) *Policy {
	p := &Policy{enabled: true, external: true, permits: map[string]bool{read: true, exec: true}, groups: map[string][]string{}}
	nacm := root.From(Module, "nacm")
	if nacm == nil {
		return p
	}
	p.enabled, p.external = nacm.Text("enable-nacm") == "true", nacm.Text("enable-external-groups") == "true"
	write := nacm.Text("write-default") == "permit"
	p.permits = map[string]bool{
		read: nacm.Text("read-default") == "permit", exec: nacm.Text("exec-default") == "permit", create: write, update: write, remove: write,
	}
	for _, g := range nacm.Kid("groups").All("group") {
		for _, u := range g.All("user-name") {
			p.groups[u.Value.Text] = append(p.groups[u.Value.Text], g.Text("name"))
		}
	}
	for _, l := range nacm.All("rule-list") {
		list := ruleList{}
		for _, g := range l.All("group") {
			list.groups = append(list.groups, g.Value.Text)
		}
		for _, r := range l.All("rule") {
			list.rules = append(list.rules, newRule(r))
		}
		p.lists = append(p.lists, list)
	}
	return p
}

func newRule(n *tree.Node) rule {
	r := rule{module: n.Text("module-name"), rpc: n.Text("rpc-name"), note: n.Text("notification-name"), permit: n.Text("action") == "permit"}
	if operations := n.Text("access-operations"); operations != "*" {
		r.operations = strings.Fields(operations)
	}
	if path := n.Kid("path"); path != nil {
		r.path = steps(path.Value)
	}
	return r
}

// steps parses an instance identifier. Predicates other than equality of keys are ignored.
func steps(value schema.Value) []step {
	all := []step{}
	for part := range strings.SplitSeq(outsideQuotes(value.Text), "/") {
		if part == "" {
			continue
		}
		name, predicates, _ := strings.Cut(part, "[")
		prefix, local, _ := strings.Cut(name, ":")
		s := step{space: value.Prefixes[prefix], name: local, keys: map[string]string{}}
		for predicate := range strings.SplitSeq(predicates, "[") {
			key, text, found := strings.Cut(strings.TrimSuffix(predicate, "]"), "=")
			if found {
				text = strings.ReplaceAll(strings.Trim(strings.TrimSpace(text), `'"`), "\x01", "/")
				s.keys[key[strings.LastIndex(key, ":")+1:]] = text
			}
		}
		all = append(all, s)
	}
	return all
}

// outsideQuotes replaces the slashes inside quotes by a control character.
func outsideQuotes(text string) string {
	var quote rune
	return strings.Map(func(r rune) rune {
		switch {
		case quote == 0 && (r == '\'' || r == '"'):
			quote = r
		case r == quote:
			quote = 0
		case quote != 0 && r == '/':
			return '\x01'
		}
		return r
	}, text)
}

// Checker is a policy for one user.
type Checker struct {
	policy  *Policy
	rules   []rule
	denials *Denials
	same    map[sameKey]bool
}

type sameKey struct {
	schema    *schema.Node
	operation string
	inherited bool
}

// For returns the rules that apply to a user.
func (p *Policy) For(user User, denials *Denials) *Checker {
	c := &Checker{policy: p, denials: denials, same: map[sameKey]bool{}}
	groups := slices.Clone(p.groups[user.Name])
	if p.external {
		groups = append(groups, user.Groups...)
	}
	if len(groups) == 0 {
		return c
	}
	for _, l := range p.lists {
		if slices.ContainsFunc(l.groups, func(g string) bool { return g == "*" || slices.Contains(groups, g) }) {
			c.rules = append(c.rules, l.rules...)
		}
	}
	return c
}

func (r *rule) covers(module, operation string) bool {
	return (r.module == "*" || r.module == module) && (r.operations == nil || slices.Contains(r.operations, operation))
}

// MayExec decides about an operation (RFC 8341 section 3.4.4): close-session is always permitted,
// kill-session and delete-config need a rule.
func (c *Checker) MayExec(rpc *schema.Node) bool {
	if !c.policy.enabled || rpc.Name == "close-session" && rpc.Module.Namespace == rpcerr.Base {
		return true
	}
	for _, r := range c.rules {
		if r.note == "" && r.path == nil && (r.rpc == "" || r.rpc == "*" || r.rpc == rpc.Name) && r.covers(rpc.Module.Name, exec) {
			return c.count(r.permit, &c.denials.Operations)
		}
	}
	deny := rpc.DenyAll || rpc.Module.Namespace == rpcerr.Base && (rpc.Name == "kill-session" || rpc.Name == "delete-config")
	return c.count(!deny && c.policy.permits[exec], &c.denials.Operations)
}

func (c *Checker) count(permit bool, counter *atomic.Uint32) bool {
	if !permit {
		counter.Add(1)
	}
	return permit
}

// MayNotify decides about a notification (RFC 8341 section 3.4.6).
func (c *Checker) MayNotify(note *schema.Node) bool {
	if !c.policy.enabled {
		return true
	}
	for _, r := range c.rules {
		if r.rpc == "" && r.path == nil && (r.note == "" || r.note == "*" || r.note == note.Name) && r.covers(note.Module.Name, read) {
			return c.count(r.permit, &c.denials.Notifications)
		}
	}
	return c.count(!note.DenyAll && c.policy.permits[read], &c.denials.Notifications)
}
