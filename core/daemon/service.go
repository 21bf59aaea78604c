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
	"weir/kernel/rtnl"
)

// Service keeps a policy active: it follows the file, cgroups and devices. The limits outlive it.
type Service struct {
	Engine *engine.Engine
	Policy string           // file
	Shadow bool             // all scopes in shadow
	Reload <-chan os.Signal // rereads the file; may be nil
	Log    *slog.Logger

	Socket   string // path of the API socket; "" for none
	Metrics  string // loopback address of the metrics; "" for none
	Textfile string // file with the metrics for node_exporter; "" for none

	// Look is the resync interval, in case an event was lost. 0 is 5 s.
	Look time.Duration

	lease   *engine.Lease
	health  health
	ready   bool            // the loop runs
	nudged  chan struct{}   // another command has changed the active policy
	applied []byte          // last tried text of the file; nil to try again
	seen    []byte          // text of the file at the last resync
	trouble string          // last logged problem
	kinds   map[string]bool // of the active selectors
	adopted map[uint64]bool
	warned  map[uint64]bool // by hash of the text: a policy may have many warnings
}

// Intervals of heartbeats, of resyncs, and of the search for new network namespaces (in resyncs).
const (
	beatEvery  = time.Second
	lookEvery  = 5 * time.Second
	adoptEvery = 6
	// serviceLockWait and serviceManagerWait, with the 8 s of all container runtimes, bound a step
	// of the loop, which sends a heartbeat to the watchdog before each step. Without an answer the
	// active policy stays, and the next resync tries again.
	serviceLockWait    = 2 * time.Second
	serviceManagerWait = 4 * time.Second
)

// Run applies the policy, reports readiness, and follows the policy until ctx ends. A policy that
// cannot be applied at the start is an error; a later one changes nothing and is reported.
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
	devices, err := rtnl.WatchDevices(nil) // before the apply, which causes events
	if err != nil {
		return errors.Join(err, closeAll(listeners))
	}
	files, cgroups, err := s.begin()
	if err != nil {
		return errors.Join(err, closeAll(listeners), devices.Close())
	}
	if manager, is := s.Engine.Manager.(*systemd.Manager); is {
		manager.Patience = serviceManagerWait
	}
	if err := s.lease.Announce(); err != nil {
		return errors.Join(err, closeAll(listeners), files.close(), cgroups.close(), devices.Close())
	}
	work, ctx := errgroup.WithContext(ctx)
	for _, l := range listeners {
		s.answer(ctx, work, l)
	}
	work.Go(files.run)
	work.Go(cgroups.run)
	work.Go(devices.Run)
	work.Go(func() error {
		err := s.follow(ctx, files, cgroups, devices.Changed)
		return errors.Join(err, files.close(), cgroups.close(), devices.Close())
	})
	err = work.Wait()
	s.Log.Info("stopped; the limits stay active", "end_them_with", "weir release")
	return err
}

// begin applies the policy for the first time and starts the watches.
func (s *Service) begin() (files, cgroups *watcher, err error) {
	// Watch first, so that an edit during the apply causes an event.
	if files, err = watch(policyEvents, s.isPolicy); err != nil {
		return nil, nil, err
	}
	if err := files.set([]string{filepath.Dir(s.Policy)}); err != nil {
		s.say("changes of the policy file are noticed late", err)
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

// isPolicy reports whether an entry of the folder may be the policy file. Kubernetes replaces
// mounted files through "..data".
func (s *Service) isPolicy(name string) bool {
	return name == filepath.Base(s.Policy) || name == "..data"
}

// follow handles all events in sequence.
func (s *Service) follow(ctx context.Context, files, cgroups *watcher, devices <-chan struct{}) error {
	if s.Look <= 0 {
		s.Look = lookEvery
	}
	look, beat := time.NewTicker(s.Look), time.NewTicker(beatEvery)
	defer look.Stop()
	defer beat.Stop()
	s.look(cgroups, true)
	work := s.runners()
	defer work.stop()
	events := &followers{}
	defer events.stop()
	s.ready = true
	s.notifyManager("READY=1")
	dog := time.NewTicker(max(watchdog(), time.Millisecond))
	defer dog.Stop()
	if watchdog() == 0 {
		dog.Stop()
	}
	for looks := 0; ; {
		s.pulse()
		work.resync(ctx)
		events.resync(ctx, s.Engine.Lookup, s.kinds)
		select {
		case <-ctx.Done():
			s.notifyManager("STOPPING=1")
			return nil
		case <-files.changed:
			s.reread(false)
			s.look(cgroups, false)
		case <-s.Reload:
			s.notifyManager("RELOADING=1")
			s.reread(true)
			s.look(cgroups, true)
			s.notifyManager("READY=1")
		case <-cgroups.changed:
			s.look(cgroups, false)
		case <-devices:
			s.look(cgroups, false)
		case <-s.nudged:
			s.look(cgroups, false)
		case <-events.changed():
			s.look(cgroups, false)
		case <-look.C:
			looks++
			s.settled()
			s.look(cgroups, looks%adoptEvery == 0)
			if err := files.set([]string{filepath.Dir(s.Policy)}); err != nil {
				s.say("changes of the policy file are noticed late", err)
			}
		case <-beat.C:
			s.alive()
		case <-dog.C: // the next turn sends it
		}
	}
}

// pulse reports before each step of the loop that the loop is alive. The ticker alone is not
// enough: select takes any of the ready events, and each step may wait for slow services.
func (s *Service) pulse() {
	if !s.ready {
		return
	}
	s.health.seen(time.Now())
	if watchdog() > 0 {
		s.notifyManager("WATCHDOG=1")
	}
}

// reread applies the file if its text has changed since the last try, or always.
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
		err = nil // the file's mistake
	} else if err != nil {
		s.applied = nil // the obstacle may be temporary
	}
	s.health.tried(applying, err, time.Now())
}

// settled rereads the file if an event was lost: its text has changed since the last try, but not
// since the last resync. A file that is still being written changes again.
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

// apply applies the text of a policy.
func (s *Service) apply(text []byte) error {
	p, err := s.Engine.Language.Parse(s.Policy, text)
	if err != nil {
		return err
	}
	p.PutInShadow(s.Shadow)
	result, err := s.Engine.Take(p, func(p *policy.Policy) (engine.Outcome, error) {
		out, err := s.Engine.Apply(p)
		s.pulse() // Take looks for similar names next
		return out, err
	})
	for _, warning := range append(policy.Exposed(s.Policy), result.Warnings...) {
		s.warn(warning)
	}
	if err != nil {
		return err
	}
	s.report("applied", result.Outcome)
	return nil
}

// look resyncs the active policy with cgroups, devices and, if adopt, network namespaces of the
// host.
func (s *Service) look(cgroups *watcher, adopt bool) {
	s.pulse()
	selectors, err := s.Engine.ActiveSelectors()
	if s.kinds = map[string]bool{}; err == nil {
		for _, selector := range selectors {
			s.kinds[selector.Kind] = true
		}
		// Watch first: later changes cause events, earlier ones are found below.
		err = cgroups.set(s.Engine.Lookup().Watch(selectors))
	}
	if err != nil {
		s.say("changes of cgroups are noticed late", err)
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
		s.pulse()
		if s.adopted, err = s.Engine.FollowNamespaces(s.adopted); err != nil {
			s.say("new network namespaces are followed in part", err)
		}
	}
}

// report logs the changes.
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

// warn logs a warning once per text.
func (s *Service) warn(warning string) {
	if hash := maphash.String(warnings, warning); !s.warned[hash] {
		s.warned[hash] = true
		s.Log.Warn(warning)
	}
}

// problem publishes why the policy file is not active, or with nil that it is.
func (s *Service) problem(err error) {
	text := ""
	if err != nil {
		text = err.Error()
	}
	if text == s.lease.Problem() {
		return
	}
	if err != nil {
		s.Log.Error("the policy file cannot be applied; the active policy stays", "reason", err)
		s.notifyManager("STATUS=the policy file cannot be applied: " + text)
	} else {
		s.notifyManager("STATUS=the policy file is active")
	}
	if err := s.lease.Describe(text); err != nil {
		s.say("describe controller", err)
	}
}

// alive sends the heartbeat.
func (s *Service) alive() {
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

// notifyManager sends a message to the service manager, sd_notify(3).
func (s *Service) notifyManager(message string) {
	if err := notify(message); err != nil {
		s.say("notify", err)
	}
}
