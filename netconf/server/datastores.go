// SPDX-License-Identifier: Apache-2.0

package server

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"weir/internal/atomicfile"
	"weir/netconf/rpcerr"
	"weir/netconf/tree"
	"weir/netconf/xmltree"
)

// Names of the datastores.
const (
	runningName   = "running"
	candidateName = "candidate"
	startupName   = "startup"
)

const startupFile = "startup.xml"

// loadStartup reads the startup datastore; nil if there is none.
func (s *Server) loadStartup() (*tree.Node, error) {
	path := filepath.Join(s.config.StateDir, startupFile)
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read startup datastore: %w", err)
	}
	x, err := xmltree.Parse(bytes.TrimSpace(text), xmltree.Limits{})
	if err != nil {
		return nil, fmt.Errorf("read startup datastore %s: %w", path, err)
	}
	root, errs := tree.Edit(s.set, tree.Root(s.set), x, tree.MergeIn, false)
	if len(errs) > 0 {
		return nil, fmt.Errorf("read startup datastore %s: %w", path, errs[0])
	}
	return root, nil
}

func (s *Server) storeStartup(root *tree.Node) error {
	var w xmltree.Writer
	w.Start(rpcerr.Base, "config")
	tree.Encode(&w, s.set, root)
	w.End()
	if err := atomicfile.WriteBytes(filepath.Join(s.config.StateDir, startupFile), 0o600, []byte(w.String()+"\n")); err != nil {
		return fmt.Errorf("write startup datastore: %w", err)
	}
	return nil
}

// store returns a datastore by name; mu is held.
func (s *Server) store(name string) *tree.Node {
	switch name {
	case runningName:
		return s.running
	case candidateName:
		return s.candidate
	}
	return s.startup
}

// named returns the datastore that a parameter names.
func named(x *xmltree.Element, parameter string) (string, *rpcerr.Error) {
	k := x.Kid(rpcerr.Base, parameter)
	if k == nil || len(k.Kids) != 1 {
		return "", rpcerr.Protocol(rpcerr.MissingElement, "the parameter %s is missing", parameter).With("bad-element", parameter)
	}
	return k.Kids[0].Local, nil
}

// held returns an error if another session has locked a datastore; mu is held.
func (c *session) held(name string) *rpcerr.Error {
	if holder := c.server.locks[name]; holder != 0 && holder != c.id {
		return rpcerr.Protocol(rpcerr.InUse, "session %d has locked the %s datastore", holder, name)
	}
	return nil
}

func (c *session) lock(_ context.Context, x *xmltree.Element) (reply, []*rpcerr.Error) {
	name, err := named(x, "target")
	if err != nil {
		return nil, one(err)
	}
	s := c.server
	s.mu.Lock()
	defer s.mu.Unlock()
	denied := func(holder uint32, format string, args ...any) (reply, []*rpcerr.Error) {
		return nil, one(rpcerr.Protocol(rpcerr.LockDenied, format, args...).With("session-id", fmt.Sprint(holder)))
	}
	switch holder := s.locks[name]; {
	case holder != 0:
		return denied(holder, "session %d has locked the %s datastore", holder, name)
	case name == candidateName && s.candidate != s.running:
		return denied(0, "the candidate datastore has changes that are not committed: commit or discard them")
	case name == runningName && s.confirm != nil && (s.confirm.persist != "" || s.confirm.session != c.id):
		return denied(s.confirm.session, "a confirmed commit is pending")
	}
	s.locks[name], s.lockTimes[name] = c.id, time.Now()
	return nil, nil
}

func (c *session) unlock(_ context.Context, x *xmltree.Element) (reply, []*rpcerr.Error) {
	name, err := named(x, "target")
	if err != nil {
		return nil, one(err)
	}
	s := c.server
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.locks[name] != c.id {
		return nil, one(rpcerr.Protocol(rpcerr.Failed, "this session has not locked the %s datastore", name))
	}
	delete(s.locks, name)
	if name == candidateName { // RFC 6241 section 8.3.5.2
		s.candidate = s.running
	}
	return nil, nil
}

func (c *session) discardChanges(context.Context, *xmltree.Element) (reply, []*rpcerr.Error) {
	s := c.server
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := c.held(candidateName); err != nil {
		return nil, one(err)
	}
	s.candidate = s.running
	return nil, nil
}

func (c *session) deleteConfig(_ context.Context, x *xmltree.Element) (reply, []*rpcerr.Error) {
	name, err := named(x, "target")
	if err != nil {
		return nil, one(err)
	}
	checker := c.access()
	s := c.server
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := c.held(name); err != nil {
		return nil, one(err)
	}
	empty := tree.Root(s.set)
	if err := checker.Write(s.store(name), empty); err != nil {
		return nil, one(err)
	}
	return nil, one(c.replace(name, empty))
}

// replace sets candidate or startup; mu is held.
func (c *session) replace(name string, root *tree.Node) *rpcerr.Error {
	s := c.server
	if name == candidateName {
		s.candidate = root
		return nil
	}
	if err := s.storeStartup(root); err != nil {
		return rpcerr.Of(err)
	}
	s.startup = root
	s.configChanged(c, startupName, nil)
	return nil
}

func (c *session) copyConfig(ctx context.Context, x *xmltree.Element) (reply, []*rpcerr.Error) {
	target, err := named(x, "target")
	if err != nil {
		return nil, one(err)
	}
	mode, err := defaultsMode(x)
	if err != nil {
		return nil, one(err)
	}
	checker := c.access()
	s := c.server
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := c.held(target); err != nil {
		return nil, one(err)
	}
	root, errs := c.source(x)
	if len(errs) > 0 {
		return nil, errs
	}
	root = tree.WithDefaults(checker.Read(root), mode)
	if err := checker.Write(s.store(target), root); err != nil {
		return nil, one(err)
	}
	if target == startupName {
		if err := s.check(ctx, root, s.running); err != nil {
			return nil, one(err)
		}
	}
	return nil, one(c.replace(target, root))
}

// source returns the datastore or the inline configuration of a request; mu is held.
func (c *session) source(x *xmltree.Element) (*tree.Node, []*rpcerr.Error) {
	name, err := named(x, "source")
	if err != nil {
		return nil, one(err)
	}
	if name == "config" {
		inline := x.Kid(rpcerr.Base, "source").Kids[0]
		return tree.Edit(c.server.set, tree.Root(c.server.set), inline, tree.MergeIn, false)
	}
	return c.server.store(name), nil
}
