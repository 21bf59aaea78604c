// SPDX-License-Identifier: Apache-2.0

package offload

import (
	"errors"
	"fmt"
	"time"

	"weir/core/module"
	"weir/internal/fault"
	"weir/kernel/netns"
	"weir/kernel/probe"
	"weir/modules/offload/flower"
	"weir/modules/offload/live"
	"weir/modules/offload/plan"
	"weir/modules/offload/state"
	"weir/modules/offload/xdp"
)

// Lease is how long the fast path stays valid after a renewal.
const Lease = time.Second

// hostPlane is the pinned data plane of a host.
type hostPlane struct {
	host  module.Host
	ns    *netns.Namespace
	lease time.Duration
}

// treatmentOf returns the offload treatment of a state; nil without one.
func treatmentOf(s module.State) *Treatment {
	for _, item := range s.Host {
		if t, ok := item.Treatment.(*Treatment); ok {
			return t
		}
	}
	return nil
}

// Ready rejects policies that this host does not support.
func (p *hostPlane) Ready(want module.State) error {
	t := treatmentOf(want)
	if t == nil {
		return nil
	}
	err := able(t)
	if err != nil {
		return fault.Wrap(fmt.Errorf("offload: %w", err), fault.Testbed, "see the missing feature: weir doctor")
	}
	planned, err := p.plan(t)
	if err != nil || !t.filters() {
		return err
	}
	return p.portsTake(t, planned)
}

// able returns the kernel feature that a backend lacks, or nil.
func able(t *Treatment) error {
	if t.filters() {
		return probe.Classifier("flower")
	}
	if probe.XDPNative() == nil {
		return nil
	}
	return probe.XDPGeneric()
}

// plan reads the host's state and makes a plan for it.
func (p *hostPlane) plan(t *Treatment) (*plan.Planner, error) {
	s, err := live.Read(p.ns)
	if err != nil {
		return nil, err
	}
	if !t.filters() {
		if err := p.wiresSuitXDP(t, s); err != nil {
			return nil, err
		}
	}
	ports, err := p.undelivered(t, s)
	if err != nil {
		return nil, err
	}
	withUndelivered(s, ports)
	planned, err := planner(t, s)
	if err != nil || t.Budget == 0 {
		return planned, err
	}
	counted, err := p.counted()
	if err != nil {
		return nil, err
	}
	planned.Choose(t.Budget, traffic(planned, counted))
	return planned, nil
}

// planner returns plan.New with advice in its error.
func planner(t *Treatment, s *state.State) (*plan.Planner, error) {
	n, err := plan.New(t.Policy(), s)
	if err != nil {
		return nil, fault.Wrap(fmt.Errorf("offload: %w", err), fault.Usage,
			"remove the link from the policy, or the rule from the host; weir offload plan shows the routes")
	}
	return n, nil
}

// Apply installs a table of the current routes in place of the former one. It can be repeated after
// a crash at any point.
func (p *hostPlane) Apply(_, want module.State) (notes []string, err error) {
	t := treatmentOf(want)
	if t == nil {
		_, err := p.Release()
		return nil, err
	}
	planned, err := p.plan(t)
	if err != nil {
		return nil, err
	}
	in, notes, err := p.install(t, planned)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	notes = append(notes, leftOut(t, planned)...)
	if err := in.Samples().Record(planned.Chosen(), 0); err != nil {
		return nil, err
	}
	return notes, p.removeOthers(t)
}

// InPlace reports whether a table is pinned and every port has the program.
func (p *hostPlane) InPlace(have module.State) (bool, error) {
	t := treatmentOf(have)
	if t == nil {
		return true, nil
	}
	if t.filters() {
		return p.filtersInPlace(t)
	}
	pinned, err := xdp.Open(p.host.Pins)
	if errors.Is(err, xdp.ErrNone) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer pinned.Close()
	attached, err := pinned.Attached()
	return len(attached) == pinned.Ports(), err
}

// Release ends the fast path.
func (p *hostPlane) Release() (bool, error) {
	programs, err := xdp.Remove(p.host.Pins)
	filters, err2 := flower.Remove(p.ns, p.host.Pins)
	return programs || filters, errors.Join(err, err2)
}
