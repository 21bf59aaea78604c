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

// hostPlane is the data plane that the spine leads, pinned: the program and its maps in the room's
// folder, its attachments in the one of all rooms.
type hostPlane struct{ host module.Host }

// Ready refuses selectors that this host cannot tell packets by, before anything changes.
func (p *hostPlane) Ready(want module.State) error {
	if err := errors.Join(bpffs.CanPin(p.host.Pins), probe.ProgramType(ebpf.SchedCLS)); err != nil {
		return err
	}
	return want.Matchable(ebpf.SchedCLS)
}

// InPlace says whether the program is filled, and at every device that this network namespace has
// now; of an empty state, whether it is filled all the same.
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

// Apply leads the data plane from one state to another: what is to be done is told first, and done
// at each device from then on.
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
		notes = append(notes, "cgroups that are made again have their class once somebody has looked: "+err.Error())
	}
	if err := m.renew(nil, p.host.Devices); err != nil {
		return nil, err
	}
	if err := p.everywhere(ours(func(ns *netns.Namespace) error { return m.renew(ns, p.host.Devices) })); err != nil {
		notes = append(notes, "packets that leave other network namespaces are marked in part: "+err.Error())
	}
	return notes, nil
}

// ours leaves network namespaces of other user namespaces out: any user can make some, fill them
// with devices, and forge in them what flows ask for.
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

// Holds says whether traffic of a key is a scope's, whoever has bound it.
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

// Follow marks at the devices of a network namespace that has come.
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

// open opens the pinned programs, or loads and pins some: in place of what a crash or another
// version of Weir has left, or of those without room for so many scopes or for flows, whose
// counters it takes over and which go on at the devices until renew.
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
