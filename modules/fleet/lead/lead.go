// SPDX-License-Identifier: Apache-2.0

// Package lead runs a leader of a fleet: it wins the leader's lease, reads the lasting state, takes
// reports, and sends grants until the lease is lost.
//
// Of several candidates one leads. Its lease in the key-value store ends by itself if it is not
// renewed; before it sends a grant, a leader checks on its monotonic clock that its last renewal is
// younger than that. Members are saved before their first grant.
package lead

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"weir/modules/fleet/bus"
	"weir/modules/fleet/leader"
	"weir/modules/fleet/shared"
	"weir/modules/fleet/wire"
)

// Candidate is a process that leads the fleet when no other one does.
type Candidate struct {
	Conn *bus.Conn
	// Inbox is a connection of its own for reports, so that a flood of reports delays neither the
	// renewal of the lease nor grants.
	Inbox    *bus.Conn
	Name     string        // shown by status
	Replicas int           // of the store: 1, or 3 in a cluster
	Lease    time.Duration // of grants
	Log      *slog.Logger
}

const (
	// ttl is the lease of the leader in the store.
	ttl = time.Second
	// A leader trusts a renewal for this long.
	trust = ttl * 8 / 10
	// Renewals and attempts of candidates.
	renewal = ttl / 4
	// Time between decisions without reports: leases of silent hosts end.
	idle = 100 * time.Millisecond
	// Minimum time between decisions, and their maximum share of the time is 1/rest.
	pause, rest = 5 * time.Millisecond, 10
	// queue holds reports while a decision is made.
	queue = 1 << 16
	// maxReports bounds the reports of one host per second.
	maxReports = 100
)

// Run leads whenever no other candidate does, until ctx ends.
func (c Candidate) Run(ctx context.Context) error {
	for wait := time.Duration(0); ; wait = renewal {
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(wait):
		}
		store, err := c.Conn.OpenStore(ctx, c.Replicas, ttl)
		if err != nil {
			c.warn(ctx, "open the store", err)
			continue
		}
		asked := time.Now()
		epoch, err := store.Lead(ctx, c.Name)
		if err != nil {
			c.warn(ctx, "become the leader", err)
			continue
		}
		if epoch == 0 {
			continue
		}
		c.Log.Info("leads the fleet", "epoch", epoch)
		t := &term{Candidate: c, store: store, revision: epoch, trusted: asked.Add(trust)}
		if err := t.run(ctx, epoch); err != nil && ctx.Err() == nil {
			c.Log.Warn("no longer leads the fleet", "epoch", epoch, "reason", err)
		}
	}
}

func (c Candidate) warn(ctx context.Context, what string, err error) {
	if ctx.Err() == nil {
		c.Log.Warn("cannot "+what, "reason", err)
	}
}

// term is the time of one leader.
type term struct {
	Candidate
	store    *bus.Store
	revision uint64    // of the lease
	trusted  time.Time // until then the lease cannot have ended
	leader   *leader.Leader
	limits   shared.Limits
	stored   uint64 // revision of the limits
	members  uint64 // revision of the members
	bad      map[string]time.Time
}

// asked is a request of an operator.
type asked struct {
	text   []byte
	answer chan Response
}

// renewed is the result of a renewal that was started at a time.
type renewed struct {
	at       time.Time
	revision uint64
	err      error
}

func (t *term) run(ctx context.Context, epoch uint64) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if err := t.load(ctx, epoch); err != nil {
		return err
	}
	reports, requests := make(chan wire.Report, queue), make(chan asked)
	stop, err := t.Inbox.Reports(newFilter().pass, func(r wire.Report) {
		select {
		case reports <- r:
		default: // a newer one follows
		}
	}, t.reject)
	if err != nil {
		return err
	}
	defer func() { _ = stop() }()
	stopRequests, err := t.Conn.Answer(func(text []byte) any {
		q := asked{text, make(chan Response, 1)}
		select {
		case requests <- q:
			return <-q.answer
		case <-ctx.Done():
			return Response{Error: "the leader is stopping", Try: "try again in some seconds"}
		}
	})
	if err != nil {
		return err
	}
	defer func() { _ = stopRequests() }()
	err = t.loop(ctx, reports, requests)
	cancel()
	for { // requests that wait
		select {
		case q := <-requests:
			q.answer <- Response{Error: "the leader is stopping", Try: "try again in some seconds"}
		default:
			_ = t.store.Resign(t.revision) // fails if another leader has followed
			return err
		}
	}
}

// load reads the lasting state.
func (t *term) load(ctx context.Context, epoch uint64) error {
	d, err := t.store.Limits(ctx)
	if err != nil {
		return err
	}
	t.stored = d.Revision
	if d.Revision > 0 {
		if err := json.Unmarshal(d.Text, &t.limits); err != nil {
			return fmt.Errorf("read shared limits of the store: %w", err)
		}
	}
	tree, err := t.limits.Tree()
	if err != nil {
		return fmt.Errorf("read shared limits of the store: %w", err)
	}
	members, revision, err := t.store.Members(ctx)
	if err != nil {
		return err
	}
	t.members = revision
	t.leader = leader.New(time.Now(), epoch, t.Lease, tree, members)
	return nil
}

// loop works until the lease is lost or ctx ends.
func (t *term) loop(ctx context.Context, reports <-chan wire.Report, requests <-chan asked) error {
	renewals := make(chan renewed, 1)
	renew := time.NewTicker(renewal)
	defer renew.Stop()
	decide := time.NewTimer(0)
	defer decide.Stop()
	renewing, next := false, time.Now() // next is the earliest time of the next decision
	for {
		select {
		case <-ctx.Done():
			return nil
		case r := <-reports:
			t.leader.Report(time.Now(), r)
			decide.Reset(time.Until(next))
		case q := <-requests:
			q.answer <- t.handle(ctx, q.text)
			decide.Reset(time.Until(next))
		case <-renew.C:
			if !renewing {
				renewing = true
				go t.renew(ctx, t.revision, renewals)
			}
		case r := <-renewals:
			renewing = false
			if r.err == nil {
				t.revision, t.trusted = r.revision, r.at.Add(trust)
			}
		case <-decide.C:
			begin := time.Now()
			if err := t.decide(ctx); err != nil {
				return err
			}
			spent := time.Since(begin)
			next = time.Now().Add(max(pause, rest*spent))
			decide.Reset(max(idle, time.Until(next)))
		}
	}
}

func (t *term) renew(ctx context.Context, revision uint64, to chan<- renewed) {
	at := time.Now()
	next, err := t.store.Renew(ctx, t.Name, revision)
	to <- renewed{at, next, err}
}

// decide saves new members and sends grants.
func (t *term) decide(ctx context.Context) error {
	if _, versions := t.leader.Unsaved(); len(versions) > 0 {
		if err := t.save(ctx); err != nil {
			return err
		}
		t.leader.Saved(versions)
	}
	out := t.leader.Decide(time.Now())
	if time.Now().After(t.trusted) {
		return errors.New("the leader's lease is not renewed in time")
	}
	for _, o := range out {
		if err := t.Conn.Grant(o.Host, o.Grant); err != nil {
			return fmt.Errorf("send grant: %w", err)
		}
	}
	return nil
}

func (t *term) save(ctx context.Context) (err error) {
	t.members, err = t.store.SetMembers(ctx, t.leader.Members(), t.members)
	return err
}

// handle carries out a request of an operator.
func (t *term) handle(ctx context.Context, text []byte) Response {
	r := Response{Leader: t.Name}
	var q Request
	err := json.Unmarshal(text, &q)
	switch {
	case err != nil:
		r.Error = "request is not JSON: " + err.Error()
	case q.Op == OpStatus:
		s := t.leader.Status(time.Now())
		r.Status = &s
	case q.Op == OpPlan:
		r.Changes, err = t.change(ctx, q.Limits, false)
	case q.Op == OpApply:
		r.Changes, err = t.change(ctx, q.Limits, true)
	case q.Op == OpRemove:
		if err = t.leader.Remove(time.Now(), q.Host); err == nil {
			err = t.save(ctx)
		}
	default:
		r.Error = fmt.Sprintf("unknown operation %.40q", q.Op)
	}
	if err != nil && r.Error == "" {
		r.Error, r.Try = err.Error(), "see the hosts and their guarantees with 'weir fleet status'"
	}
	return r
}

// change compares the limits with the active ones, and replaces these if apply is set.
func (t *term) change(ctx context.Context, want shared.Limits, apply bool) ([]string, error) {
	tree, err := want.Tree()
	if err != nil {
		return nil, err
	}
	all := changes(t.limits, want)
	if !apply {
		return all, t.leader.CheckTree(tree)
	}
	if err := t.leader.CheckTree(tree); err != nil || len(all) == 0 {
		return nil, err
	}
	text, err := json.Marshal(want)
	if err != nil {
		return nil, err
	}
	if t.stored, err = t.store.SetLimits(ctx, text, t.stored); err != nil {
		return nil, err
	}
	t.limits = want
	return all, t.leader.SetTree(tree)
}

// reject logs bad reports, at most one per host and minute.
func (t *term) reject(host string, err error) {
	if t.bad == nil {
		t.bad = map[string]time.Time{}
	}
	if now := time.Now(); now.Sub(t.bad[host]) > time.Minute {
		t.bad[host] = now
		t.Log.Warn("rejects a report", "host", host, "reason", err)
	}
}

// filter bounds the reports of each host. It is used by one goroutine.
type filter struct {
	second int64
	counts map[string]int
}

func newFilter() *filter { return &filter{counts: map[string]int{}} }

func (f *filter) pass(host string) bool {
	if now := time.Now().Unix(); now != f.second {
		f.second = now
		clear(f.counts)
	}
	f.counts[host]++
	return f.counts[host] <= maxReports
}
