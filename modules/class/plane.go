// SPDX-License-Identifier: Apache-2.0

package class

import (
	"errors"
	"os"

	"github.com/cilium/ebpf"

	"weir/core/match"
	"weir/core/module"
	"weir/kernel/bpffs"
	"weir/kernel/cgroup"
	"weir/kernel/device"
	"weir/kernel/netns"
	"weir/kernel/probe"
)

// hostPlane is the pinned data plane: program and maps in the module's folder, attachments in the
// folder of devices.
type hostPlane struct{ host module.Host }

// Ready rejects selectors that this host cannot match.
func (p *hostPlane) Ready(want module.State) error {
	if err := errors.Join(bpffs.CanPin(p.host.Pins), probe.ProgramType(ebpf.SchedCLS)); err != nil {
		return err
	}
	return want.Matchable(ebpf.SchedCLS)
}

// InPlace reports whether the program is filled and attached to every current device of this
// network namespace; for an empty state, whether it is filled.
func (p *hostPlane) InPlace(have module.State) (bool, error) {
	m, err := openMarker(p.host.Pins)
	if gone(err) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer func() { _ = m.close() }()
	settings, err := m.settings()
	if filled := settings.Filled == 1; err != nil || !filled || have.Empty() {
		return filled, err
	}
	for _, at := range m.places(settings) {
		if lacking, err := missing(nil, at.hook, p.host.Devices); err != nil || len(lacking) > 0 {
			return false, err
		}
	}
	return true, nil
}

// Apply fills the new state first, then attaches to each device.
func (p *hostPlane) Apply(have, want module.State) (notes []string, err error) {
	m, err := p.open(module.CapacityFor(have, want), asked(want) != 0)
	if err != nil {
		return nil, err
	}
	defer func() { _ = m.close() }()
	root, err := cgroup.Cgroup{Path: p.host.CgroupRoot}.ID()
	if err != nil {
		return nil, err
	}
	if err := match.Sweep(p.host.Pins, m.maps.ScopeCgroups, have.Assignments(), want.Assignments()); err != nil {
		return nil, err
	}
	if err := m.fill(have, want, match.OfCgroup(root)); err != nil {
		return nil, err
	}
	err = match.Rebind(p.host.Pins, m.maps.ScopeCgroups, want.Places())
	if err != nil && !errors.Is(err, ebpf.ErrNotSupported) {
		notes = append(notes, "recreated cgroups have their class after the next resync of weir daemon, or the next apply: "+err.Error())
	}
	if err := m.renew(nil, p.host.Devices); err != nil {
		return nil, err
	}
	if err := p.everywhere(ours(func(ns *netns.Namespace) error { return m.renew(ns, p.host.Devices) })); err != nil {
		notes = append(notes, "packets that leave other network namespaces are marked in part: "+err.Error())
	}
	return notes, nil
}

// ours skips network namespaces of other user namespaces: any user can create them, fill them with
// devices, and forge requests in them.
func ours(visit func(*netns.Namespace) error) func(*netns.Namespace) error {
	return new(netns.Few).Of(visit)
}

// everywhere visits the network namespaces of this host.
func (p *hostPlane) everywhere(visit func(*netns.Namespace) error) error {
	if p.host.Namespaces == nil {
		return nil
	}
	return p.host.Namespaces(visit)
}

// Holds reports whether a key is assigned to a scope, by Weir or by the kernel.
func (p *hostPlane) Holds(scope int, key match.Key) (bool, error) {
	m, err := openMarker(p.host.Pins)
	if gone(err) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer func() { _ = m.close() }()
	return match.Holds(m.maps.ScopeCgroups, key, scope)
}

// Follow marks at the devices of a new network namespace.
func (p *hostPlane) Follow(ns *netns.Namespace) error {
	return p.FollowDevices(ns, module.State{})
}

// FollowDevices marks at the devices that a network namespace has now.
func (p *hostPlane) FollowDevices(ns *netns.Namespace, _ module.State) error {
	m, err := openMarker(p.host.Pins)
	if gone(err) {
		return nil
	}
	if err != nil {
		return err
	}
	defer func() { _ = m.close() }()
	return ours(func(ns *netns.Namespace) error { return m.attach(ns, p.host.Devices) })(ns)
}

// open opens the pinned programs, or loads and pins new ones: after a crash, for another version of
// Weir, or for a larger capacity. New ones take over the counters of old ones, which remain
// attached until renew.
func (p *hostPlane) open(scopes int, asked bool) (*marker, error) {
	m, err := openMarker(p.host.Pins)
	switch {
	case gone(err):
		if _, err := p.Release(); err != nil {
			return nil, err
		}
	case err != nil || m.maps.ClassScopes.MaxEntries() >= uint32(scopes) && (m.remembers() || !asked):
		return m, err
	default:
		defer func() { _ = m.close() }()
		scopes = max(scopes, int(m.maps.ClassScopes.MaxEntries()))
	}
	larger, err := loadMarker(scopes, asked)
	if err != nil {
		return nil, err
	}
	if m != nil {
		if err = bpffs.CopyEach[markClassCounts](m.maps.ClassCounters, larger.maps.ClassCounters); err == nil {
			err = unpinMarker(p.host.Pins)
		}
	}
	if err == nil {
		err = larger.pin(p.host.Pins)
	}
	if err != nil {
		return nil, errors.Join(err, larger.close())
	}
	return larger, nil
}

// Release takes the program from all devices and removes every pin. Filters of clsact, which no pin
// holds, are looked for where namespaces can be entered.
func (p *hostPlane) Release() (released bool, err error) {
	_, found := os.Stat(p.host.Pins)
	take := func(ns *netns.Namespace) error { return detach(ns, p.host.Devices) }
	if err := take(nil); err != nil {
		return false, err
	}
	err = p.everywhere(take)
	if err == nil {
		err = device.Forget(p.host.Devices, moduleName)
	}
	if err == nil {
		err = unpinMarker(p.host.Pins)
	}
	return found == nil, err
}
