// SPDX-License-Identifier: Apache-2.0

package offload

import (
	"context"
	"errors"
	"maps"
	"net/netip"
	"slices"
	"time"

	"weir/core/module"
	"weir/modules/offload/flower"
	"weir/modules/offload/live"
	"weir/modules/offload/plan"
	"weir/modules/offload/state"
	"weir/modules/offload/xdp"
)

// Periods of a follower.
const (
	renewEvery   = 250 * time.Millisecond // a quarter of the lease
	lookEvery    = time.Second            // for packet filters without events
	confirmEvery = 15 * time.Second
)

// WithoutDaemon returns the warning shown when a policy is applied without a running daemon.
func (p *hostPlane) WithoutDaemon() string {
	return "offload: no daemon follows the kernel's routing. " + p.lease.String() + " after this command the kernel forwards all packets again, except those of rules in a NIC, which stay: start 'weir daemon'"
}

// Run follows the kernel's routing until ctx ends or another process replaces the table.
func (p *hostPlane) Run(ctx context.Context, have module.State) error {
	t := treatmentOf(have)
	if t == nil {
		return nil
	}
	follower, err := live.Follow(p.ns)
	if err != nil {
		return err
	}
	defer follower.Close()
	k := &runner{plane: p, treatment: t, follower: follower}
	defer k.close()
	if err := k.begin(); err != nil {
		return err
	}
	for err == nil {
		err = k.step(ctx)
	}
	if errors.Is(err, errReplaced) || ctx.Err() != nil {
		return nil
	}
	return err
}

var errReplaced = errors.New("another process has put a table in place of this one")

// runner updates one table.
type runner struct {
	plane              *hostPlane
	treatment          *Treatment
	follower           *live.Follower
	planner            *plan.Planner
	table              table
	renewed, confirmed time.Time
	looked             time.Time
	undelivered        []state.Filter // ports that drop redirected frames
	selection          selection
}

func (k *runner) close() {
	if k.table != nil {
		k.table.Close()
	}
}

// begin installs a table of the follower's state.
func (k *runner) begin() (err error) {
	former := k.planner
	if k.undelivered, err = k.plane.undelivered(k.treatment, k.follower.State); err != nil {
		return err
	}
	withUndelivered(k.follower.State, k.undelivered)
	if k.planner, err = planner(k.treatment, k.follower.State); err != nil {
		return err
	}
	if err := k.chooseAnew(former); err != nil {
		return err
	}
	now, _, err := k.plane.install(k.treatment, k.planner)
	if err != nil {
		return err
	}
	k.close()
	k.table = now
	k.renewed = time.Now()
	return k.chosen()
}

// step applies the changes that have arrived, or waits for some.
func (k *runner) step(ctx context.Context) error {
	changes, err := k.follower.Next(ctx, renewEvery)
	if err != nil {
		return err
	}
	if changes.Uncertain {
		if err := k.table.Renew(0); err != nil {
			return err
		}
	}
	if err := k.update(changes); err != nil {
		return err
	}
	if changes.Anew {
		return k.again(ctx)
	}
	return k.tend()
}

// again reads the complete state and replaces the table. A device may disappear in between.
func (k *runner) again(ctx context.Context) (err error) {
	const attempts = 5
	for range attempts {
		if err = k.follower.Again(); err == nil {
			err = k.begin()
		}
		if err == nil || ctx.Err() != nil {
			return err
		}
	}
	return err
}

// update applies changes one by one.
func (k *runner) update(c live.Changes) error {
	var changed []plan.Decision
	prefixes := slices.Collect(maps.Keys(c.Routes))
	for _, to := range prefixes {
		k.planner.Route(to)
	}
	for at := range c.Neighbors {
		more, to := k.planner.Neighbor(at)
		changed = append(changed, more...)
		if to.IsValid() {
			prefixes = append(prefixes, to)
		}
	}
	if c.Links {
		changed = append(changed, k.planner.Refresh()...)
	}
	if len(prefixes)+len(changed) == 0 {
		return nil
	}
	return k.write(prefixes, changed)
}

// write updates the table. A table without space for the changes is replaced.
func (k *runner) write(prefixes []netip.Prefix, changed []plan.Decision) error {
	err := k.table.Update(prefixes, changed)
	if err == nil {
		return nil
	}
	if errors.Is(err, xdp.ErrFull) {
		return k.begin()
	}
	given := k.table.Renew(0) // no packet uses half of a change
	var full *flower.Full
	if k.planner.Budgeted() && errors.As(err, &full) {
		return errors.Join(given, k.begin())
	}
	return errors.Join(err, given)
}

// tend renews the lease and confirms neighbours.
func (k *runner) tend() error {
	now := time.Now()
	if now.Sub(k.renewed) >= renewEvery {
		if !k.table.InForce() {
			return errReplaced
		}
		if err := k.table.Renew(k.plane.lease); err != nil {
			return err
		}
		k.renewed = now
	}
	if now.Sub(k.looked) >= lookEvery {
		k.looked = now
		if err := k.look(); err != nil {
			return err
		}
	}
	if err := k.choose(now); err != nil {
		return err
	}
	if now.Sub(k.confirmed) >= confirmEvery {
		k.confirmed = now
		return k.follower.Confirm(k.planner.Stale())
	}
	return nil
}

// look reads packet filters without events and tests delivery. A change replaces the table.
func (k *runner) look() error {
	changed, err := k.follower.Refilter()
	if err != nil {
		return err
	}
	ports, err := k.plane.undelivered(k.treatment, k.follower.State)
	if err != nil || !changed && slices.Equal(ports, k.undelivered) {
		return err
	}
	if err := k.table.Renew(0); err != nil {
		return err
	}
	return k.begin()
}
