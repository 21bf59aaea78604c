// SPDX-License-Identifier: Apache-2.0

// Package server implements NETCONF (RFC 6241) over message streams: datastores, operations,
// notifications, monitoring. It knows no device and no transport: a Device applies configurations,
// and a transport hands in authenticated streams.
//
// Only the candidate datastore can be edited. A commit is checked, applied by the device and then
// becomes the running datastore; if the device rejects it, nothing has changed. Readers of a
// datastore share immutable trees and wait for no commit.
package server

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"weir/netconf/access"
	"weir/netconf/rpcerr"
	"weir/netconf/schema"
	"weir/netconf/tree"
)

// Device is the instrument or router behind the server. The server serialises Check and Apply;
// State may run at any time.
type Device interface {
	// Check rejects a configuration that Apply cannot carry out, without side effects.
	Check(ctx context.Context, config *tree.Node) *rpcerr.Error
	// Apply makes a configuration active on all ports or on none.
	Apply(ctx context.Context, old, config *tree.Node) *rpcerr.Error
	// State reads state below the top-level nodes that wanted accepts, by name.
	State(ctx context.Context, config *tree.Node, wanted func(name string) bool) (*tree.Node, error)
}

// Action is an RPC of a module beyond NETCONF's own.
type Action func(ctx context.Context, input *tree.Node) (*tree.Node, *rpcerr.Error)

// Config of a server.
type Config struct {
	Set     *schema.Set
	Device  Device
	Initial *tree.Node // the running datastore at the start, unless there is a startup datastore
	// StateDir holds the startup datastore; without it there is none.
	StateDir string
	Log      *slog.Logger
	// MaxSessions bounds concurrent sessions; 0 is 32.
	MaxSessions int
	// WriteTimeout ends the session of a client that does not read; 0 is 30 s.
	WriteTimeout time.Duration
	// CheckStartup may change the startup datastore before it becomes the running one.
	CheckStartup func(root *tree.Node) *tree.Node
}

// Server holds the datastores. Create one with New.
type Server struct {
	config  Config
	set     *schema.Set
	log     *slog.Logger
	denials access.Denials
	started time.Time
	nextID  atomic.Uint32
	notes   hub
	counts  counters

	mu        sync.Mutex // guards all below; Device.Apply runs under it
	running   *tree.Node
	candidate *tree.Node
	startup   *tree.Node // nil without StateDir
	policy    *access.Policy
	nacm      *tree.Node // the container that policy comes from
	locks     map[string]uint32
	lockTimes map[string]time.Time
	confirm   *confirmation
	sessions  map[uint32]*session
}

// counters are the statistics of RFC 6022 section 2.1.5.
type counters struct {
	badHellos, inSessions, dropped, inRPCs, inBad, outErrors, outNotes atomic.Uint64
}

// New opens the datastores and applies the running one.
func New(ctx context.Context, config Config) (*Server, error) {
	if config.MaxSessions == 0 {
		config.MaxSessions = 32
	}
	if config.WriteTimeout == 0 {
		config.WriteTimeout = 30 * time.Second
	}
	s := &Server{
		config: config, set: config.Set, log: config.Log, started: time.Now(),
		locks: map[string]uint32{}, lockTimes: map[string]time.Time{}, sessions: map[uint32]*session{},
	}
	initial := config.Initial
	if config.StateDir != "" {
		stored, err := s.loadStartup()
		if err != nil {
			return nil, err
		}
		if s.startup = initial; stored != nil {
			s.startup, initial = stored, stored
			if config.CheckStartup != nil {
				initial = config.CheckStartup(stored)
			}
		}
	}
	empty := tree.Root(s.set)
	if err := s.check(ctx, initial, nil); err != nil {
		return nil, err
	}
	if err := config.Device.Apply(ctx, empty, initial); err != nil {
		return nil, err
	}
	s.setRunning(initial)
	s.candidate = initial
	return s, nil
}

// setRunning replaces the running datastore; mu is held, or the server is new.
func (s *Server) setRunning(root *tree.Node) {
	s.running = root
	if nacm := root.From(access.Module, "nacm"); nacm != s.nacm || s.policy == nil {
		s.nacm, s.policy = nacm, access.New(root)
	}
}

// check validates a datastore completely; valid is one that has passed.
func (s *Server) check(ctx context.Context, root, valid *tree.Node) *rpcerr.Error {
	if root == valid {
		return nil
	}
	if err := tree.Validate(root, valid); err != nil {
		return err
	}
	return s.config.Device.Check(ctx, root)
}

// Running returns the running datastore.
func (s *Server) Running() *tree.Node {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.running
}

// Close ends all sessions.
func (s *Server) Close() {
	s.mu.Lock()
	all := make([]*session, 0, len(s.sessions))
	for _, one := range s.sessions {
		all = append(all, one)
	}
	if s.confirm != nil {
		s.confirm.timer.Stop()
	}
	s.mu.Unlock()
	for _, one := range all {
		one.end("other")
	}
}

// Capabilities lists the server's capability URIs.
func (s *Server) Capabilities() []string {
	base := "urn:ietf:params:netconf:"
	all := []string{
		base + "base:1.0", base + "base:1.1",
		base + "capability:candidate:1.0", base + "capability:confirmed-commit:1.1", base + "capability:rollback-on-error:1.0",
		base + "capability:validate:1.1", base + "capability:xpath:1.0",
		base + "capability:notification:1.0", base + "capability:interleave:1.0",
		base + "capability:with-defaults:1.0?basic-mode=explicit&also-supported=report-all,report-all-tagged,trim",
	}
	if s.config.StateDir != "" {
		all = append(all, base+"capability:startup:1.0")
	}
	all = append(all, base+"capability:yang-library:1.1?revision=2019-01-04&content-id="+s.contentID(),
		base+"capability:yang-library:1.0?revision=2019-01-04&module-set-id="+s.contentID())
	for _, m := range s.set.Modules { // YANG 1.1 modules are announced by the library alone (RFC 7950 section 5.6.4)
		if !m.Version11 && !m.Import {
			all = append(all, m.Namespace+"?module="+m.Name+"&revision="+m.Revision+featureList(m))
		}
	}
	return all
}

func featureList(m *schema.Module) string {
	text := ""
	for i, f := range m.Features {
		text += map[bool]string{true: "&features=", false: ","}[i == 0] + f
	}
	return text
}
