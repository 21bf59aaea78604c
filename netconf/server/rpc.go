// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"

	"weir/netconf/access"
	"weir/netconf/rpcerr"
	"weir/netconf/schema"
	"weir/netconf/tree"
	"weir/netconf/xmltree"
)

// reply writes the content of an rpc-reply; nil is <ok/>.
type reply func(w *xmltree.Writer)

// operation handles one RPC.
type operation func(c *session, ctx context.Context, x *xmltree.Element) (reply, []*rpcerr.Error)

const (
	monitoringSpace   = "urn:ietf:params:xml:ns:yang:ietf-netconf-monitoring"
	notificationSpace = "urn:ietf:params:xml:ns:netconf:notification:1.0"
	withDefaultsSpace = "urn:ietf:params:xml:ns:yang:ietf-netconf-with-defaults"
)

// operations by namespace and name.
var operations = map[string]operation{
	rpcerr.Base + " get":                       (*session).get,
	rpcerr.Base + " get-config":                (*session).getConfig,
	rpcerr.Base + " edit-config":               (*session).editConfig,
	rpcerr.Base + " copy-config":               (*session).copyConfig,
	rpcerr.Base + " delete-config":             (*session).deleteConfig,
	rpcerr.Base + " lock":                      (*session).lock,
	rpcerr.Base + " unlock":                    (*session).unlock,
	rpcerr.Base + " validate":                  (*session).validate,
	rpcerr.Base + " commit":                    (*session).commit,
	rpcerr.Base + " cancel-commit":             (*session).cancelCommit,
	rpcerr.Base + " discard-changes":           (*session).discardChanges,
	rpcerr.Base + " kill-session":              (*session).killSession,
	rpcerr.Base + " close-session":             func(*session, context.Context, *xmltree.Element) (reply, []*rpcerr.Error) { return nil, nil },
	monitoringSpace + " get-schema":            (*session).getSchema,
	notificationSpace + " create-subscription": (*session).createSubscription,
}

// one wraps a single error.
func one(err *rpcerr.Error) []*rpcerr.Error {
	if err == nil {
		return nil
	}
	return []*rpcerr.Error{err}
}

// rpc dispatches a request.
func (c *session) rpc(ctx context.Context, request *xmltree.Element) (out reply, errs []*rpcerr.Error, goesOn bool) {
	if _, has := request.Attr("", "message-id"); !has {
		e := rpcerr.New(rpcerr.MissingAttribute, "the attribute message-id is missing").With("bad-attribute", "message-id").With("bad-element", "rpc")
		e.Type = "rpc"
		return nil, one(e), true
	}
	if len(request.Kids) != 1 {
		return nil, one(rpcerr.Protocol(rpcerr.MissingElement, "a request holds one operation, this one has %d", len(request.Kids))), true
	}
	x := request.Kids[0]
	name := x.Space + " " + x.Local
	run, known := operations[name]
	defined := c.server.set.RPCs[name]
	if defined == nil && name == notificationSpace+" create-subscription" {
		defined = subscriptionSchema
	}
	if !known || defined == nil {
		return nil, one(rpcerr.Protocol(rpcerr.NotSupported, "the operation %s is not supported", x.Local).With("bad-element", x.Local)), true
	}
	if !c.access().MayExec(defined) {
		return nil, one(rpcerr.Protocol(rpcerr.AccessDenied, "user %s may not execute %s", c.peer.User.Name, x.Local)), true
	}
	if err := checkParameters(defined, x); err != nil {
		return nil, one(err), true
	}
	out, errs = run(c, ctx, x)
	return out, errs, x.Local != "close-session" || x.Space != rpcerr.Base
}

// access returns the checker of the active policy.
func (c *session) access() *access.Checker {
	c.server.mu.Lock()
	policy := c.server.policy
	c.server.mu.Unlock()
	if policy != c.policy {
		c.policy, c.checker = policy, policy.For(c.peer.User, &c.server.denials)
	}
	return c.checker
}

// subscriptionSchema stands for the RPC of RFC 5277, which has no YANG module.
var subscriptionSchema = &schema.Node{Name: "create-subscription", Kind: schema.RPC, Module: &schema.Module{Name: "notifications", Namespace: notificationSpace}}

// checkParameters rejects elements that the RPC's input lacks.
func checkParameters(rpc *schema.Node, x *xmltree.Element) *rpcerr.Error {
	if rpc == subscriptionSchema {
		return nil
	}
	var input *schema.Node
	for _, k := range rpc.Children {
		if k.Name == "input" {
			input = k
		}
	}
	seen := map[string]bool{}
	for _, k := range x.Kids {
		known := input != nil && input.Child(k.Space, k.Local) != nil
		if !known || seen[k.Local] {
			tag := rpcerr.UnknownElement
			if known {
				tag = rpcerr.BadElement
			}
			return rpcerr.Protocol(tag, "%s has no parameter %s here, or its capability is not supported", x.Local, k.Local).With("bad-element", k.Local)
		}
		seen[k.Local] = true
		if inner := input.Child(k.Space, k.Local); inner.Kind == schema.Container {
			if err := checkChoice(inner, k); err != nil {
				return err
			}
		}
	}
	return nil
}

// checkChoice checks a container such as source or target: one known element.
func checkChoice(s *schema.Node, x *xmltree.Element) *rpcerr.Error {
	for _, k := range x.Kids {
		if s.Child(k.Space, k.Local) == nil {
			return rpcerr.Protocol(rpcerr.UnknownElement, "%s cannot be %s, or its capability is not supported", x.Local, k.Local).With("bad-element", k.Local)
		}
	}
	if len(x.Kids) != 1 {
		return rpcerr.Protocol(rpcerr.BadElement, "%s needs one element", x.Local).With("bad-element", x.Local)
	}
	return nil
}

// parameter returns the text of a parameter, or def.
func parameter(x *xmltree.Element, name, def string) string {
	if k := x.Kid(x.Space, name); k != nil {
		return k.Value()
	}
	return def
}

// defaultsMode reads the parameter with-defaults.
func defaultsMode(x *xmltree.Element) (tree.Defaults, *rpcerr.Error) {
	k := x.Kid(withDefaultsSpace, "with-defaults")
	if k == nil {
		return tree.Explicit, nil
	}
	switch mode := tree.Defaults(k.Value()); mode {
	case tree.Explicit, tree.ReportAll, tree.Trim, tree.Tagged:
		return mode, nil
	}
	return "", rpcerr.Protocol(rpcerr.InvalidValue, "%q is no mode of with-defaults", k.Value()).With("bad-element", "with-defaults")
}

// filtered applies the parameter filter.
func filtered(root *tree.Node, x *xmltree.Element) (*tree.Node, *rpcerr.Error) {
	f := x.Kid(rpcerr.Base, "filter")
	if f == nil {
		return root, nil
	}
	attribute := func(name string) (string, bool) {
		if value, has := f.Attr("", name); has {
			return value, true
		}
		return f.Attr(rpcerr.Base, name)
	}
	kind, has := attribute("type")
	switch {
	case !has || kind == "subtree":
		return tree.Subtree(root, f), nil
	case kind != "xpath":
		return nil, rpcerr.Protocol(rpcerr.BadAttribute, "%q is no type of filter: use subtree or xpath", kind).
			With("bad-attribute", "type").With("bad-element", "filter")
	}
	expression, has := attribute("select")
	if !has {
		return nil, rpcerr.Protocol(rpcerr.MissingAttribute, "a filter of type xpath needs the attribute select").
			With("bad-attribute", "select").With("bad-element", "filter")
	}
	selection, err := tree.XPath(root, expression, f.Bindings())
	if err != nil {
		return nil, rpcerr.Protocol(rpcerr.InvalidValue, "%s", err).With("bad-element", "filter")
	}
	return selection, nil
}

// wanted reports which top-level nodes a subtree filter can select.
func wanted(x *xmltree.Element) func(name string) bool {
	f := x.Kid(rpcerr.Base, "filter")
	kind := ""
	if f != nil {
		kind, _ = f.Attr("", "type")
	}
	if f == nil || kind == "xpath" {
		return func(string) bool { return true }
	}
	names := map[string]bool{}
	for _, k := range f.Kids {
		names[k.Local] = true
	}
	return func(name string) bool { return names[name] }
}
