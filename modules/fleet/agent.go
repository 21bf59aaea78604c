// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"context"
	"fmt"
	"time"

	"weir/core/module"
	"weir/internal/units"
	"weir/kernel/clock"
	"weir/modules/fleet/bus"
	"weir/modules/fleet/member"
	"weir/modules/fleet/wire"
)

const (
	// reportEvery is the interval of reports, and look that of the counters: a limit that begins to
	// throttle is reported at once.
	reportEvery = 250 * time.Millisecond
	look        = 50 * time.Millisecond
	// A scope that uses this share of its rate counts as throttled: a pacing sender may stay below
	// it without marks.
	nearlyAll = 0.97
)

// agent is the daemon's work for one state. One goroutine uses it, apart from its channels.
type agent struct {
	path    string // of the file
	conn    *bus.Conn
	member  *member.Member
	state   state
	limits  []*followed
	grants  chan wire.Grant
	reports time.Time // of the last report
	written time.Time
}

// followed is a limit with its plane.
type followed struct {
	module.SharedLimit
	rates  module.Rates
	claim  *member.Claim
	recent []sample // of the last window, the oldest first
	calm   bool     // was not throttled in the last report
	used   float64  // bit/s in the last report
}

// sample is a reading of the counters.
type sample struct {
	at time.Time
	module.Usage
}

// window is the time over which use and throttling are measured.
const window = reportEvery

// read reads the counters, and returns the readings at both ends of the window.
func (f *followed) read(now time.Time) (from, to sample, err error) {
	u, err := f.rates.Sample(f.SharedLimit)
	if err != nil {
		return from, to, err
	}
	f.recent = append(f.recent, sample{now, u})
	for len(f.recent) > 2 && now.Sub(f.recent[1].at) >= window {
		f.recent = f.recent[1:]
	}
	return f.recent[0], f.recent[len(f.recent)-1], nil
}

// Run reports and sets rates until ctx ends.
func (p *plane) Run(ctx context.Context, have module.State) error {
	t := membership(have)
	if t == nil || p.host.Followers == nil {
		<-ctx.Done()
		return nil
	}
	a := &agent{path: p.file(), grants: make(chan wire.Grant, 16)}
	closeAll, err := a.open(p.host, t)
	defer closeAll()
	if err != nil {
		return err
	}
	if err := a.conn.Grants(t.Host, func(g wire.Grant) {
		select {
		case a.grants <- g:
		case <-ctx.Done():
		}
	}); err != nil {
		return err
	}
	return a.loop(ctx)
}

// open opens the planes, the file and the connection, and sets all limits to their floors.
func (a *agent) open(h module.Host, t *Treatment) (closeAll func(), err error) {
	var opened []func()
	closeAll = func() {
		for _, f := range opened {
			f()
		}
	}
	if a.state, err = readFile(a.path); err != nil {
		return closeAll, err
	}
	planes, err := h.Followers()
	if err != nil {
		return closeAll, err
	}
	for _, f := range planes {
		limits := f.SharedLimits(f.State)
		if len(limits) == 0 {
			continue
		}
		rates, err := f.OpenRates(f.State)
		if err != nil {
			return closeAll, err
		}
		opened = append(opened, func() { _ = rates.Close() })
		for _, l := range limits {
			if err := a.follow(l, rates); err != nil {
				return closeAll, err
			}
		}
	}
	a.state.Boot = max(a.state.Boot+1, uint64(time.Now().UnixNano()))
	var claims []*member.Claim
	for _, f := range a.limits {
		claims = append(claims, f.claim)
	}
	a.member = member.New(t.Host, a.state.Boot, claims)
	if err := a.save(); err != nil { // the boot number, before it is used
		return closeAll, err
	}
	if a.conn, err = bus.Dial(t.Fleet, t.Servers, t.Credentials, true); err != nil {
		return closeAll, err
	}
	opened = append(opened, a.conn.Close)
	return closeAll, nil
}

// follow adds a limit, at its saved floor.
func (a *agent) follow(l module.SharedLimit, rates module.Rates) error {
	f := &followed{SharedLimit: l, rates: rates, claim: &member.Claim{ID: l.ID(), Limit: l.Name, Min: float64(l.Min), Max: float64(l.Max), Weight: l.Weight}}
	for _, c := range a.state.Claims {
		if c.Scope == l.Scope && c.Direction == l.Direction.String() && c.Limit == l.Name {
			f.claim.Floor = min(c.Floor, float64(l.Min))
		}
	}
	if _, _, err := f.read(time.Now()); err != nil {
		return err
	}
	a.limits = append(a.limits, f)
	floor := units.BitRate(f.claim.Floor)
	return rates.Grant(l, floor, floor, time.Minute)
}

func (a *agent) loop(ctx context.Context) error {
	tick := time.NewTicker(look)
	defer tick.Stop()
	if err := a.report(time.Now()); err != nil {
		return err
	}
	for {
		select {
		case <-ctx.Done():
			return a.save()
		case g := <-a.grants:
			if err := a.take(time.Now(), g); err != nil {
				return err
			}
		case now := <-tick.C:
			early, err := a.watch()
			if err != nil {
				return err
			}
			if early || now.Sub(a.reports) >= reportEvery {
				if err := a.report(now); err != nil {
					return err
				}
			}
		}
	}
}

// watch reports whether a limit that was not throttled at the last report is now.
func (a *agent) watch() (early bool, err error) {
	for _, f := range a.limits {
		from, to, err := f.read(time.Now())
		if err != nil {
			return false, err
		}
		early = early || f.calm && to.Throttled > from.Throttled
	}
	return early, nil
}

// report sends a report with the use since the last one.
func (a *agent) report(now time.Time) error {
	samples := map[string]member.Sample{}
	for _, f := range a.limits {
		from, to, err := f.read(now)
		if err != nil {
			return err
		}
		if elapsed := to.at.Sub(from.at); elapsed > 0 {
			f.used = float64(to.Bytes-from.Bytes) * 8 / elapsed.Seconds()
		}
		s := member.Sample{Used: f.used, Throttled: to.Throttled > from.Throttled || f.used > nearlyAll*f.claim.Rate}
		samples[f.claim.ID], f.calm = s, !s.Throttled
	}
	a.reports = now
	r := a.member.Report(now, samples)
	address, connected := a.conn.Connected()
	switch {
	case !connected:
		a.state.Problem = "no server is connected"
	default:
		a.state.Problem = "connected to " + address
	}
	if now.Sub(a.written) > time.Second {
		if err := a.save(); err != nil {
			return err
		}
	}
	if connected {
		_ = a.conn.Report(r) // a newer one follows
	}
	return nil
}

// take applies a grant.
func (a *agent) take(now time.Time, g wire.Grant) error {
	o := a.member.Grant(now, g)
	if o.NewFloor { // before it is confirmed
		if err := a.save(); err != nil {
			return err
		}
	}
	if o.Applied {
		for _, f := range a.limits {
			c := f.claim
			err := f.rates.Grant(f.SharedLimit, units.BitRate(c.Rate), units.BitRate(c.Floor), time.Until(c.Until))
			if err != nil {
				return fmt.Errorf("set granted rate of %s: %w", c.ID, err)
			}
		}
	}
	if o.Confirm {
		return a.report(time.Now())
	}
	return nil
}

// save writes the file.
func (a *agent) save() error {
	a.state.Epoch = a.member.Epoch()
	a.state.Claims = nil
	for _, f := range a.limits {
		c := claim{Scope: f.Scope, Direction: f.Direction.String(), Limit: f.Name, Rate: f.claim.Rate, Floor: f.claim.Floor, Used: f.used, Reason: f.claim.Reason}
		if left := time.Until(f.claim.Until); left > 0 {
			c.Until = time.Duration(clock.Now()) + left
		}
		a.state.Claims = append(a.state.Claims, c)
	}
	a.written = time.Now()
	return a.state.write(a.path)
}
