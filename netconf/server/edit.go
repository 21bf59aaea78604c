// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"

	"weir/netconf/rpcerr"
	"weir/netconf/tree"
	"weir/netconf/xmltree"
)

func (c *session) getConfig(_ context.Context, x *xmltree.Element) (reply, []*rpcerr.Error) {
	name, err := named(x, "source")
	if err != nil {
		return nil, one(err)
	}
	checker := c.access()
	c.server.mu.Lock()
	root := c.server.store(name)
	c.server.mu.Unlock()
	return c.data(checker.Read(root), x)
}

func (c *session) get(ctx context.Context, x *xmltree.Element) (reply, []*rpcerr.Error) {
	checker := c.access()
	want := wanted(x)
	config := c.server.Running()
	state, err := c.server.config.Device.State(ctx, config, want)
	if err != nil {
		return nil, one(rpcerr.Of(err))
	}
	own := c.server.state(want)
	return c.data(checker.Read(tree.Merge(tree.Merge(config, state), own)), x)
}

// data is the reply with a datastore, after with-defaults and filter.
func (c *session) data(root *tree.Node, x *xmltree.Element) (reply, []*rpcerr.Error) {
	mode, err := defaultsMode(x)
	if err != nil {
		return nil, one(err)
	}
	root, err = filtered(tree.WithDefaults(root, mode), x)
	if err != nil {
		return nil, one(err)
	}
	return func(w *xmltree.Writer) {
		w.Start(rpcerr.Base, "data")
		tree.Encode(w, c.server.set, root)
		w.End()
	}, nil
}

// option returns a parameter that must be one of some words.
func option(x *xmltree.Element, name string, words ...string) (string, *rpcerr.Error) {
	value := parameter(x, name, words[0])
	for _, w := range words {
		if value == w {
			return value, nil
		}
	}
	return "", rpcerr.Protocol(rpcerr.InvalidValue, "%q is no value of %s", value, name).With("bad-element", name)
}

func (c *session) editConfig(ctx context.Context, x *xmltree.Element) (reply, []*rpcerr.Error) {
	target, err := named(x, "target")
	if err != nil {
		return nil, one(err)
	}
	def, err := option(x, "default-operation", "merge", "replace", "none")
	if err != nil {
		return nil, one(err)
	}
	test, err := option(x, "test-option", "test-then-set", "set", "test-only")
	if err != nil {
		return nil, one(err)
	}
	onError, err := option(x, "error-option", "stop-on-error", "continue-on-error", "rollback-on-error")
	if err != nil {
		return nil, one(err)
	}
	config := x.Kid(rpcerr.Base, "config")
	if config == nil {
		return nil, one(rpcerr.Protocol(rpcerr.MissingElement, "the parameter config is missing").With("bad-element", "config"))
	}
	checker := c.access()
	s := c.server
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := c.held(target); err != nil {
		return nil, one(err)
	}
	edited, errs := tree.Edit(s.set, s.candidate, config, tree.Operation(def), onError == "continue-on-error")
	if len(errs) > 0 && onError != "continue-on-error" {
		return nil, errs
	}
	if err := checker.Write(s.candidate, edited); err != nil {
		return nil, append(errs, err)
	}
	if test == "test-only" {
		// a candidate may be incomplete between edits: only this option checks it now
		return nil, append(errs, one(s.check(ctx, edited, s.running))...)
	}
	s.candidate = edited
	return nil, errs
}

func (c *session) validate(ctx context.Context, x *xmltree.Element) (reply, []*rpcerr.Error) {
	s := c.server
	s.mu.Lock()
	defer s.mu.Unlock()
	root, errs := c.source(x)
	if len(errs) > 0 {
		return nil, errs
	}
	return nil, one(s.check(ctx, root, s.running))
}
