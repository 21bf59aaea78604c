// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"log/slog"
	"os"
	"path/filepath"
	"time"
	"weir/core/engine"

	"golang.org/x/sync/errgroup"

	"weir/core/policy"
	"weir/internal/fault"
	"weir/internal/systemd"
)

// Service keeps a policy in force: it follows the file, and cgroups and devices as they come and
// go. When it ends, the limits stay.
type Service struct {
	Engine *engine.Engine
	Policy string           // file
	Shadow bool             // all scopes in shadow
	Reload <-chan os.Signal // reads the file again; may be nil
	Log    *slog.Logger

	Socket   string // path of the API's unix socket; "" for none
	Metrics  string // loopback address of the metrics; "" for none
	Textfile string // file that holds the metrics too, for node_exporter; "" for none

	// Look is the time between two looks at everything, should an event have been lost. 0 is 5 s.
	Look time.Duration

	lease   *engine.Lease
	health  health
	nudged  chan struct{} // somebody else has changed what is in force
	applied []byte        // text of the file as last tried; nil if it is to be tried again
	seen    []byte        // text of the file at the last look
	trouble string        // last problem said, so that it is said once
	adopted map[uint64]bool
	warned  map[uint64]bool // by the texts' hashes: a policy may have many
}

// Times between signs of life, and between two searches for new network namespaces, in looks.
const (
	beatEvery  = time.Second
	lookEvery  = 5 * time.Second
	adoptEvery = 6
	// serviceLockWait and serviceManagerWait are less than any watchdog's patience. Without an
	// answer what is in force stays, and the next look asks again.
	serviceLockWait    = 2 * time.Second
	serviceManagerWait = 4 * time.Second
)

// Run applies the policy, says that it is ready, and follows it until ctx ends. A policy that
// cannot be applied at the start is an error; later ones change nothing and are reported.
func (s *Service) Run(ctx context.Context) (err error) {
	if s.lease, err = engine.AcquireLease(s.Engine.StateDir, s.Policy); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.lease.Release()) }()
	s.nudged, s.warned = make(chan struct{}, 1), map[uint64]bool{}
	if s.Engine.LockWait == 0 {
		shared := *s.Engine
		shared.LockWait = serviceLockWait
		s.Engine = &shared
	}
	listeners, err := s.listen()
	if err != nil {
		return err
	}
	files, cgroups, err := s.begin()
	if err != nil {
		return errors.Join(err, closeAll(listeners))
	}
	if manager, is := s.Engine.Manager.(*systemd.Manager); is {
		manager.Patience = serviceManagerWait
	}
	if err := s.lease.Announce(); err != nil {
		return errors.Join(err, closeAll(listeners), files.close(), cgroups.close())
	}
	work, ctx := errgroup.WithContext(ctx)
	for _, l := range listeners {
		s.answer(ctx, work, l)
	}
	work.Go(files.run)
	work.Go(cgroups.run)
	work.Go(func() error {
		err := s.follow(ctx, files, cgroups)
		return errors.Join(err, files.close(), cgroups.close())
	})
	err = work.Wait()
	s.Log.Info("stopped; the limits stay in force", "end_them_with", "weir release")
	return err
}

// begin applies the policy for the first time, and begins to watch.
func (s *Service) begin() (files, cgroups *watcher, err error) {
	// Watch first: an edit during the apply, which may take seconds, is told of afterwards.
	if files, err = watch(policyEvents, s.isPolicy); err != nil {
		return nil, nil, err
	}
	if err := files.set([]string{filepath.Dir(s.Policy)}); err != nil {
		s.say("changes of the policy file are seen late", err)
	}
	if err := s.first(); err != nil {
		return nil, nil, errors.Join(err, files.close())
	}
	if cgroups, err = watch(cgroupEvents, nil); err != nil {
		return nil, nil, errors.Join(err, files.close())
	}
	return files, cgroups, nil
}

// first applies the policy for the first time.
func (s *Service) first() error {
	text, err := policy.ReadFile(s.Policy)
	if err != nil {
		return err
	}
	s.applied, s.seen, s.adopted = text, text, map[uint64]bool{}
	return s.apply(text)
}

// isPolicy says whether a folder's entry may stand for the policy file; "..data" is how Kubernetes
// replaces mounted files.
func (s *Service) isPolicy(name string) bool {
	return name == filepath.Base(s.Policy) || name == "..data"
}

// follow does all work on the policy, one thing after the other.
func (s *Service) follow(ctx context.Context, files, cgroups *watcher) error {
	if s.Look <= 0 {
		s.Look = lookEvery
	}
	look, beat := time.NewTicker(s.Look), time.NewTicker(beatEvery)
	defer look.Stop()
	defer beat.Stop()
	s.look(cgroups, true)
	work := s.runners()
	defer work.stop()
	s.health.seen(time.Now())
	s.tell("READY=1")
	dog := time.NewTicker(max(watchdog(), time.Millisecond))
	defer dog.Stop()
	if watchdog() == 0 {
		dog.Stop()
	}
	for looks := 0; ; {
		work.resync(ctx)
		select {
		case <-ctx.Done():
			s.tell("STOPPING=1")
			return nil
		case <-files.changed:
			s.reread(false)
			s.look(cgroups, false)
		case <-s.Reload:
			s.tell("RELOADING=1")
			s.reread(true)
			s.look(cgroups, true)
			s.tell("READY=1")
		case <-cgroups.changed:
			s.look(cgroups, false)
		case <-s.nudged:
			s.look(cgroups, false)
		case <-look.C:
			looks++
			s.settled()
			s.look(cgroups, looks%adoptEvery == 0)
			if err := files.set([]string{filepath.Dir(s.Policy)}); err != nil {
				s.say("changes of the policy file are seen late", err)
			}
		case <-beat.C:
			s.alive()
		case <-dog.C:
			s.tell("WATCHDOG=1")
		}
	}
}

// reread applies the file if its text is another than the last that was tried, or always.
func (s *Service) reread(always bool) {
	text, err := policy.ReadFile(s.Policy)
	if err != nil {
		s.problem(err)
		s.applied = nil
		return
	}
	s.seen = text
	if !always && bytes.Equal(text, s.applied) {
		return
	}
	s.applied = text
	err = s.apply(text)
	s.problem(err)
	if fault.Of(err) == fault.Usage {
		err = nil // it is the file's
	} else if err != nil {
		s.applied = nil // what stood in the way may pass
	}
	s.health.tried(applying, err, time.Now())
}

// settled rereads the file if an event was lost: its text has changed since it was tried, and not
// since the last look. A text that somebody is in the middle of writing is left alone.
func (s *Service) settled() {
	text, err := policy.ReadFile(s.Policy)
	last := s.seen
	if err != nil {
		s.seen = nil
		if last == nil {
			s.problem(err)
			s.applied = nil
		}
		return
	}
	s.seen = text
	if bytes.Equal(text, last) && !bytes.Equal(text, s.applied) {
		s.reread(false)
	}
}

// apply makes the text the policy in force.
func (s *Service) apply(text []byte) error {
	p, err := s.Engine.Language.Parse(s.Policy, text)
	if err != nil {
		return err
	}
	p.PutInShadow(s.Shadow)
	result, err := s.Engine.Take(p, s.Engine.Apply)
	for _, warning := range append(policy.Exposed(s.Policy), result.Warnings...) {
		s.warn(warning)
	}
	if err != nil {
		return err
	}
	s.report("applied", result.Outcome)
	return nil
}

// look brings what is in force in step with the host's cgroups, devices and, if asked, network
// namespaces.
func (s *Service) look(cgroups *watcher, adopt bool) {
	selectors, err := s.Engine.ActiveSelectors()
	if err == nil {
		// Watch first: what comes after this is told of, what came before is found below.
		err = cgroups.set(s.Engine.Lookup().Watch(selectors))
	}
	if err != nil {
		s.say("cgroups that come and go are seen late", err)
	}
	out, err := s.Engine.Rebind()
	s.health.tried(binding, err, time.Now())
	if err != nil {
		s.say("bind scopes", err)
		return
	}
	if out.Changed {
		s.report("scopes rebound", out)
	}
	if adopt {
		if s.adopted, err = s.Engine.FollowNamespaces(s.adopted); err != nil {
			s.say("network namespaces that came later are treated in part", err)
		}
	}
}

// report logs what has changed.
func (s *Service) report(what string, out engine.Outcome) {
	counts := map[policy.Action]int{}
	for _, step := range out.Steps {
		counts[step.Action]++
	}
	s.Log.Info(what, "changed", out.Changed, "added", counts[policy.Add], "changed_scopes", counts[policy.Change],
		"removed", counts[policy.Remove], "kept", counts[policy.Keep]+counts[policy.Rebind], "waiting", len(out.Waiting), "recovered", out.Recovered, "restored", out.Restored)
	for _, waiting := range out.Waiting {
		s.Log.Info("scope waits", "scope", waiting.Scope, "for", waiting.For)
	}
	for _, note := range out.Notes {
		s.Log.Warn(note)
	}
}

var warnings = maphash.MakeSeed()

// warn logs what a policy probably does not mean, once for each text of it.
func (s *Service) warn(warning string) {
	if hash := maphash.String(warnings, warning); !s.warned[hash] {
		s.warned[hash] = true
		s.Log.Warn(warning)
	}
}

// problem notes why the policy file is not in force, or with nil that it is, where everybody can
// see it.
func (s *Service) problem(err error) {
	text := ""
	if err != nil {
		text = err.Error()
	}
	if text == s.lease.Problem() {
		return
	}
	if err != nil {
		s.Log.Error("the policy file changes nothing; what was in force stays", "reason", err)
		s.tell("STATUS=the policy file changes nothing: " + text)
	} else {
		s.tell("STATUS=the policy file is in force")
	}
	if err := s.lease.Describe(text); err != nil {
		s.say("describe controller", err)
	}
}

// alive is the sign of life.
func (s *Service) alive() {
	s.health.seen(time.Now())
	if err := s.lease.Heartbeat(); err != nil {
		s.say("heartbeat", err)
	}
	if s.Textfile != "" {
		if err := s.writeMetrics(); err != nil {
			s.say("write metrics", err)
		}
	}
}

// say logs a problem that does not end the service, once while it lasts.
func (s *Service) say(what string, err error) {
	if text := fmt.Sprint(what, err); text != s.trouble {
		s.trouble = text
		s.Log.Warn(what, "reason", err)
	}
}

// tell tells the service manager.
func (s *Service) tell(message string) {
	if err := notify(message); err != nil {
		s.say("notify", err)
	}
}
