// SPDX-License-Identifier: Apache-2.0

package limit

import (
	"errors"
	"fmt"
	"time"

	"github.com/cilium/ebpf"

	"weir/core/module"
	"weir/core/policy"
	"weir/internal/direction"
	"weir/internal/units"
	"weir/modules/limit/lease"
	"weir/modules/limit/police"
	"weir/modules/limit/shape"
)

// readShared reads a direction that follows a shared limit of a fleet.
func readShared(d *policy.Draft, s *policy.DraftScope, dir Direction, f *rateKeys) *Limit {
	key := dir.String()
	complain := func(format string, args ...any) {
		d.Complain(s, key, "%s: %s", key, fmt.Sprintf(format, args...))
	}
	r := &Limit{Mode: f.Mode, Rate: police.MinRate, Shared: police.Shared{Name: f.Shared, Weight: 1}}
	switch {
	case f.Shared == "":
		complain("max requires shared, the name of a shared limit: write rate for a limit of this host")
	case f.Rate != nil:
		complain("shared takes the place of rate: leave rate out, or write it as max")
	case s.Parent != "" || s.IsParent:
		complain("a scope that shares a limit with other hosts has no parent and no children")
	case s.Shadow:
		complain("a shadow scope cannot follow a shared limit: leave shadow or shared out")
	case !d.Declared(FleetItem):
		complain("shared requires the section fleet, as in fleet: {name: research, servers: [10.0.0.1:4222], credentials: /etc/weir/fleet.credentials}")
	}
	for _, rate := range []struct {
		name string
		from *units.BitRate
		to   *units.BitRate
	}{{"min", f.Min, &r.Shared.Min}, {"max", f.Max, &r.Shared.Max}} {
		if rate.from == nil {
			continue
		}
		if *rate.to = *rate.from; *rate.to < police.MinRate || *rate.to > police.MaxRate {
			complain("%s %s is outside %s to %s", rate.name, *rate.to, police.MinRate, police.MaxRate)
		}
	}
	if r.Shared.Max > 0 && r.Shared.Min > r.Shared.Max {
		complain("min %s is above max %s", r.Shared.Min, r.Shared.Max)
	}
	if f.Weight != nil {
		if r.Shared.Weight = *f.Weight; r.Shared.Weight < 1 || r.Shared.Weight > police.MaxWeight {
			complain("weight %d is outside 1 to %d", r.Shared.Weight, police.MaxWeight)
		}
	}
	if id := (module.SharedLimit{Scope: s.Name, Direction: dir}).ID(); len(id) > module.MaxSharedID || len(f.Shared) > module.MaxSharedID {
		complain("the name of the scope or of the shared limit is too long: use at most %d bytes", module.MaxSharedID-len("/ingress"))
	}
	readThresholds(d, s, dir, f, r)
	return r
}

// checkShared reports more shared limits than a host may have.
func checkShared(d *policy.Draft, own []*Treatment) {
	n := 0
	for i, t := range own {
		for _, dir := range direction.Both {
			if l := t.of(dir); l == nil || l.Shared.Name == "" {
				continue
			}
			if n++; n == module.MaxSharedLimits+1 {
				d.Complain(&d.Scopes[i], dir.String(), "%s: a host may have %d shared limits at most: put traffic together in one scope", dir, module.MaxSharedLimits)
			}
		}
	}
}

// FleetItem is the item of the host that the section fleet declares.
const FleetItem = "fleet"

// follows reports whether a scope follows a shared limit.
func follows(b module.Bound) bool {
	for _, d := range direction.Both {
		if l := treatmentOf(b.Scope).of(d); l != nil && l.Shared.Name != "" {
			return true
		}
	}
	return false
}

// SharedLimits lists the limits of a state that follow shared limits.
func (p *plane) SharedLimits(have module.State) (all []module.SharedLimit) {
	for _, b := range have.Scopes {
		for _, d := range direction.Both {
			if l := treatmentOf(b.Scope).of(d); l != nil && l.Shared.Name != "" {
				all = append(all, module.SharedLimit{Scope: b.Name, Direction: d, Name: l.Shared.Name, Min: l.Shared.Min, Max: l.Shared.Max, Weight: l.Shared.Weight})
			}
		}
	}
	return all
}

// Folders of the leases of both data planes.
func (p *plane) policeLeases() string { return p.police.host.Pins + "-lease" }
func (p *plane) shapeLeases() string  { return p.shape.Pins + "-lease" }

// leaseKeys returns the keys of the limits that follow shared limits, by data plane. A shaper
// without a device has none.
func (p *plane) leaseKeys(s module.State) (policed, shaped map[uint32]bool, err error) {
	policed, shaped = map[uint32]bool{}, map[uint32]bool{}
	for _, l := range p.SharedLimits(s) {
		f := p.follower(s, l)
		if f.shaper == nil {
			policed[police.Key(f.scope.Index, l.Direction)] = true
			continue
		}
		key, there, err := p.shape.KeyOf(*f.shaper)
		if err != nil {
			return nil, nil, err
		}
		if there {
			shaped[key] = true
		}
	}
	return policed, shaped, nil
}

// arrangeLeases makes the tables of leases fit an active state.
func (p *plane) arrangeLeases(want module.State) error {
	policed, shaped, err := p.leaseKeys(want)
	if err != nil {
		return err
	}
	return errors.Join(lease.Arrange(p.policeLeases(), policed), lease.Arrange(p.shapeLeases(), shaped))
}

// dropLeases ends the leases of limits that an apply removes, before their numbers get another use.
func (p *plane) dropLeases(have, want module.State) error {
	stays := module.State{}
	named := have.ByName()
	for _, b := range want.Scopes {
		if before, there := named[b.Name]; there && before.Same(b) {
			stays.Scopes = append(stays.Scopes, b)
		}
	}
	return p.arrangeLeases(stays)
}

// follower is a limit that follows a shared one, in one of the data planes.
type follower struct {
	scope  module.Bound
	limit  Limit
	shaper *shape.Shaper // nil for a policed direction
}

func (p *plane) follower(s module.State, l module.SharedLimit) follower {
	named := s.ByName()
	b := named[l.Scope]
	f := follower{scope: b, limit: treatmentOf(b.Scope).limit(l.Direction, b.Shadow)}
	if shaped(b.Scope, l.Direction) {
		if sh, there := shaperOf(b, l.Direction, named); there {
			f.shaper = &sh
		} else {
			f.shaper = &shape.Shaper{Device: "?"} // its device is missing
		}
	}
	return f
}

// rates is module.Rates of a state.
type rates struct {
	plane   *plane
	state   module.State
	policer *police.DataPlane // nil without policed limits
	policed *lease.Setter
	shaped  *lease.Setter // nil without shaped limits
}

// OpenRates opens both data planes.
func (p *plane) OpenRates(have module.State) (module.Rates, error) {
	have, err := p.active(have)
	if err != nil {
		return nil, err
	}
	r := &rates{plane: p, state: have}
	policed, shaped, err := p.leaseKeys(have)
	if err == nil && len(policed) > 0 {
		err = r.openPolicer()
	}
	if err == nil && len(shaped) > 0 {
		var configs *ebpf.Map
		if configs, err = p.shape.Configurations(); err == nil {
			r.shaped, err = lease.NewSetter(p.shapeLeases(), configs, nil)
		}
	}
	if err != nil {
		return nil, errors.Join(err, r.Close())
	}
	return r, nil
}

func (r *rates) openPolicer() (err error) {
	if r.policer, err = police.LoadPinned(r.plane.police.host.Pins); err != nil {
		return err
	}
	configs, err := r.policer.Configurations()
	if err != nil {
		return err
	}
	queues, err := r.policer.Queues()
	if err != nil {
		return errors.Join(err, configs.Close())
	}
	r.policed, err = lease.NewSetter(r.plane.policeLeases(), configs, queues)
	return err
}

// Grant sets a rate until the lease ends.
func (r *rates) Grant(l module.SharedLimit, rate, floor units.BitRate, d time.Duration) error {
	f := r.plane.follower(r.state, l)
	at := func(rate units.BitRate) Limit {
		limit := f.limit
		limit.Rate = min(max(rate, police.MinRate), police.MaxRate)
		return limit
	}
	if f.shaper == nil {
		return r.policed.Set(police.Key(f.scope.Index, l.Direction), police.Configuration(at(rate), l.Direction), police.Configuration(at(floor), l.Direction), d)
	}
	key, there, err := r.plane.shape.KeyOf(*f.shaper)
	if err != nil || !there || r.shaped == nil {
		return err // the device is missing: nothing to limit
	}
	return r.shaped.Set(key, shape.Configuration(f.shaperAt(at(rate), l.Direction)), shape.Configuration(f.shaperAt(at(floor), l.Direction)), d)
}

// shaperAt returns the shaper with the settings of a rate.
func (f follower) shaperAt(l Limit, d Direction) shape.Shaper {
	s := Shaper(l, d)
	s.Device, s.Index, s.Namespace, s.Parent = f.shaper.Device, f.shaper.Index, f.shaper.Namespace, f.shaper.Parent
	return s
}

// Sample reads the counters of a limit.
func (r *rates) Sample(l module.SharedLimit) (module.Usage, error) {
	f := r.plane.follower(r.state, l)
	if f.shaper == nil {
		c, err := r.policer.Counters(f.scope.Index, l.Direction)
		return module.Usage{Bytes: c.Bytes, Throttled: c.Marked + c.Reduced + c.Dropped + c.Windows}, err
	}
	c, _, err := r.plane.shape.Counters(*f.shaper)
	return module.Usage{Bytes: c.Octets, Throttled: c.Marked + c.Notified + c.Early + c.Dropped + c.Windows}, err
}

// Close closes the data planes. The rates stay until their leases end.
func (r *rates) Close() error {
	var all []error
	for _, s := range []*lease.Setter{r.policed, r.shaped} {
		if s != nil {
			all = append(all, s.Close())
		}
	}
	if r.policer != nil {
		all = append(all, r.policer.Close())
	}
	return errors.Join(all...)
}
