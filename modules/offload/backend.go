// SPDX-License-Identifier: Apache-2.0

package offload

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"time"

	"weir/internal/fault"
	"weir/kernel/ethtool"
	kernel "weir/kernel/flower"
	"weir/modules/offload/flower"
	"weir/modules/offload/plan"
	"weir/modules/offload/sample"
	"weir/modules/offload/xdp"
)

// Backends, as a policy names them.
const (
	byXDP      = "xdp"
	byFlower   = "flower"
	byHardware = "hardware"
)

var mechanisms = map[string]string{"": "XDP", byXDP: "XDP", byFlower: "tc flower in software", byHardware: "tc flower in the NIC (skip_sw)"}

// table is an installed plan of a backend.
type table interface {
	Update(prefixes []netip.Prefix, changed []plan.Decision) error
	Renew(lease time.Duration) error // 0 gives all packets back to the kernel
	InForce() bool
	Samples() sample.Sampler // of the packets that were looked up; none without a budget
	Close()
}

// filters reports whether the backend is tc flower.
func (t *Treatment) filters() bool { return t.Backend == byFlower || t.Backend == byHardware }

func (t *Treatment) mode() uint32 {
	if t.Backend == byHardware {
		return kernel.SkipSoftware
	}
	return kernel.SkipHardware
}

// install installs a plan by the requested backend. notes are for the user.
func (p *hostPlane) install(t *Treatment, planned *plan.Planner) (in table, notes []string, err error) {
	if t.filters() {
		return p.installFilters(t, planned)
	}
	programs, err := xdp.Install(p.ns, p.host.Pins, planned, p.lease)
	if err != nil {
		return nil, nil, err
	}
	if len(programs.Generic) > 0 {
		notes = append(notes, fmt.Sprintf("offload: the drivers of devices %s have no XDP: the kernel runs the program in generic mode, which is slower",
			strings.Trim(fmt.Sprint(programs.Generic), "[]")))
	}
	return programs, notes, nil
}

func (p *hostPlane) installFilters(t *Treatment, planned *plan.Planner) (in table, notes []string, err error) {
	counted, err := p.counted()
	if err != nil {
		return nil, nil, err
	}
	notes, err = fit(planned, counted, func() error {
		filters, err := flower.Install(p.ns, p.host.Pins, planned, t.mode(), p.lease)
		if err == nil {
			in = filters
		}
		return err
	})
	return in, notes, err
}

// removeOthers removes the plans of other backends.
func (p *hostPlane) removeOthers(t *Treatment) (err error) {
	if t.filters() {
		_, err = xdp.Remove(p.host.Pins)
	} else {
		_, err = flower.Remove(p.ns, p.host.Pins)
	}
	return err
}

// portsTake rejects unusable ports: those with foreign filters, and for the NIC those without
// hardware rules.
func (p *hostPlane) portsTake(t *Treatment, planned *plan.Planner) error {
	for _, index := range flower.Ports(planned) {
		if err := flower.Foreign(p.ns, index); err != nil {
			return err
		}
		if t.Backend != byHardware {
			continue
		}
		name, err := flower.NameOf(p.ns, index)
		if err != nil {
			return err
		}
		features, err := ethtool.Features(p.ns, name)
		if err != nil {
			return fmt.Errorf("offload: %w", err)
		}
		if !features["hw-tc-offload"] {
			return fault.New(fault.Testbed, "ethtool -K "+name+" hw-tc-offload on; if that is fixed, its driver does not support filters: use backend: xdp",
				"offload: the NIC of %s accepts no filters (hw-tc-offload is off)", name)
		}
	}
	return nil
}

// filtersInPlace reports whether frames reach rules on every port.
func (p *hostPlane) filtersInPlace(t *Treatment) (bool, error) {
	rules, err := flower.Read(p.ns, p.host.Pins)
	if errors.Is(err, flower.ErrNone) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	planned, err := p.plan(t)
	if err != nil {
		return false, err
	}
	led := map[int]bool{}
	for _, port := range rules.Ports {
		led[port.Index] = port.Leads(false) || port.Leads(true)
	}
	for _, in := range planned.Inputs() {
		if in.Filter == 0 && (in.IPv4 || in.IPv6) && !led[in.Port] {
			return false, nil
		}
	}
	return true, nil
}
