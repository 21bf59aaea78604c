// SPDX-License-Identifier: Apache-2.0

package shape

import (
	"errors"
	"fmt"
	"slices"

	"github.com/cilium/ebpf"

	"weir/core/match"
	"weir/internal/direction"
	"weir/internal/fault"
	"weir/kernel/cgroup"
	"weir/kernel/rtnl"
)

// Work is the desired state of a host.
type Work struct {
	Shapers []Shaper
	// Assignments map traffic to the shapers of scopes. Places are the current or future locations
	// of their cgroups.
	Assignments match.Assignments
	Places      map[string]match.Place
	Unpaced     bool // local TCP senders keep their own pace
	Unheld      bool // local receivers keep their own windows
	// Shared are devices with another qdisc owner that keeps departure times.
	Shared map[string]bool
}

// scoped reports whether scopes are in use, so that every egress device charges packets.
func (w Work) scoped() bool { return len(w.Assignments) > 0 || len(w.Places) > 0 }

// devices returns the shapers of devices.
func (w Work) devices() (all []Shaper) {
	for _, l := range w.Shapers {
		if l.Device != "" {
			all = append(all, l)
		}
	}
	return all
}

func unratedAt(d rtnl.Device) Shaper {
	return Shaper{Device: d.Name, Index: d.Index, Direction: direction.Egress}
}

// unrated returns shapers without a rate: for the ends of network namespaces and, with scopes, for
// the remaining egress devices.
func (h Host) unrated(w Work) (all []Shaper, err error) {
	all, err = h.namespaceEnds(w.Shapers)
	if err != nil || !w.scoped() {
		return all, err
	}
	have := map[int]bool{}
	for _, l := range append(w.devices(), all...) {
		have[l.Index] = have[l.Index] || l.Direction == direction.Egress
	}
	devices, err := egressDevices()
	for _, d := range devices {
		if !have[d.Index] {
			all = append(all, unratedAt(d))
		}
	}
	return all, err
}

// AtDevices returns the shapers of all devices, including those without a rate, which charge scopes
// only.
func (h Host) AtDevices(w Work) ([]Shaper, error) {
	unrated, err := h.unrated(w)
	return w.markNested(append(w.devices(), unrated...)), err
}

// Ready returns an error if this host cannot shape the scopes of w. It changes nothing.
func (h Host) Ready(w Work) error {
	if len(w.Shapers) > MaxShapers {
		return fault.New(fault.Usage, "use mode: police for some of them", "%d limits with mode: shape exceed the maximum of %d", len(w.Shapers), MaxShapers)
	}
	if err := cgroup.Attachable(h.CgroupRoot, w.hooks()...); err != nil {
		return err
	}
	namespaces := slices.ContainsFunc(w.Shapers, func(l Shaper) bool { return l.Namespace != "" })
	if !w.scoped() && !namespaces {
		return nil
	}
	mechanism, err := Available(direction.Egress)
	if err == nil && mechanism != Fq {
		err = fault.New(fault.Testbed, "use a kernel with fq (CONFIG_NET_SCH_FQ), mode: police, or a scope of an interface", "shape packets of scopes: the kernel has no fq, and an HTB class has a single rate")
	}
	if err != nil {
		return err
	}
	all, err := h.unrated(w)
	for _, l := range w.markNested(all) {
		err = errors.Join(err, h.Check(l))
	}
	return err
}

// Hosting reports whether a device has another qdisc owner, and whether its tree keeps departure
// times.
type Hosting func(dev string) (owned, keeps bool)

// CheckScopes returns why packets of scopes cannot be shaped at an egress device of this network
// namespace, or nil. A device that disappears meanwhile does not count.
func (h Host) CheckScopes(hosts Hosting) error {
	devices, err := egressDevices()
	if err != nil {
		return err
	}
	return h.checkAll(devices, hosts)
}

func (h Host) checkAll(devices []rtnl.Device, hosts Hosting) error {
	for _, d := range devices {
		if err := h.checkUnrated(unratedAt(d), hosts); err != nil && !gone(d) {
			return err
		}
	}
	return nil
}

// gone reports whether a device no longer exists, or has another name.
func gone(d rtnl.Device) bool {
	now, err := egressDevices()
	return err == nil && !slices.ContainsFunc(now, func(n rtnl.Device) bool { return n.Index == d.Index && n.Name == d.Name })
}

func (h Host) checkUnrated(l Shaper, hosts Hosting) error {
	owned, keeps := hosts(l.Device)
	if l.Nested = owned && l.Direction == direction.Egress; l.Nested && !keeps {
		return fault.New(fault.Usage, "leave its link out to shape it", "%s has queues that keep no departure times", l.Device)
	}
	return h.checkUnowned(l)
}

// CheckDevice returns why one direction of a device cannot be shaped, or nil. A device that does
// not exist yet can.
func (h Host) CheckDevice(name string, d direction.Direction) error {
	links, err := rtnl.Open(nil)
	if err != nil {
		return err
	}
	defer links.Close()
	all, err := links.Devices()
	if at, there := rtnl.Named(all, name); there {
		return h.checkUnowned(Shaper{Device: name, Index: at.Index, Direction: d})
	}
	return err
}

// CheckNamespace returns why one direction of a network namespace cannot be shaped at its veth
// ends, or nil.
func (h Host) CheckNamespace(path string, d direction.Direction, hosts Hosting) error {
	ends, err := h.namespaceEnds([]Shaper{{Direction: d, Namespace: path}})
	for _, l := range ends {
		err = errors.Join(err, h.checkUnrated(l, hosts))
	}
	return err
}

// CheckEnds returns an error if a veth end would have two limits.
func (h Host) CheckEnds(w Work) error {
	_, err := h.namespaceEnds(w.Shapers)
	return err
}

// hooks returns the cgroup hooks of the programs that pace senders and throttle them.
func (w Work) hooks() (all []ebpf.AttachType) {
	if slices.ContainsFunc(w.Shapers, func(l Shaper) bool { return l.Direction == direction.Egress }) {
		all = append(all, ebpf.AttachCGroupInetEgress, ebpf.AttachCGroupSockOps)
	}
	if w.throttles() {
		all = append(all, ebpf.AttachCGroupInetIngress, ebpf.AttachCGroupSockOps)
	}
	return all
}

// setScopes activates the shapers of w's scopes and removes those of other scopes.
func (p *programs) setScopes(had match.Assignments, w Work) error {
	stays := map[uint32]bool{}
	for _, l := range w.Shapers {
		if l.Device != "" {
			continue
		}
		key := keyOf(l.Index, l.Direction)
		stays[key] = true
		if err := p.set(key, l.config(Fq)); err != nil {
			return err
		}
	}
	kinds, err := match.Maps{Program: ebpf.SchedCLS, Entries: match.Fields(&p.maps)}.Reassign(had, w.Assignments)
	if err != nil {
		return err
	}
	if len(w.Places) > 0 {
		kinds |= match.Cgroups // cgroups may appear later
	}
	settings := shapeShaperSettings{Kinds: kinds}
	if w.throttles() {
		settings.Receives = 1
	}
	if err := p.maps.DelayCurrent.Put(uint32(0), settings); err != nil {
		return fmt.Errorf("set shapers of scopes: %w", err)
	}
	return p.clearScopes(stays)
}

// throttles reports whether local receivers throttle remote senders by their windows.
func (w Work) throttles() bool {
	received := func(l Shaper) bool { return l.Device != "" && l.Direction == direction.Ingress && l.Rate > 0 }
	return !w.Unpaced && !w.Unheld && slices.ContainsFunc(w.Shapers, received)
}

// clearScopes removes the shapers of all scopes except stays.
func (p *programs) clearScopes(stays map[uint32]bool) error {
	var removed []uint32
	var key uint32
	var c shapeShaperConfig
	for each := p.maps.DelayConfigs.Iterate(); each.Next(&key, &c); {
		if key >= firstScopeKey && !stays[key] {
			removed = append(removed, key)
		}
	}
	for _, key := range removed {
		if err := p.clear(key); err != nil {
			return err
		}
	}
	return nil
}

// Holds reports whether traffic of a key is bound to a scope.
func (h Host) Holds(scope int, key match.Key) (bool, error) {
	p, err := open(h.loaded())
	if missing(err) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer func() { _ = p.close() }()
	return match.Holds(p.maps.ScopeCgroups, key, scope)
}

// FollowDevices installs shapers for scopes on new egress devices of this thread's network
// namespace, and removes those of deleted devices. Devices in shared have another qdisc owner.
func (h Host) FollowDevices(shared map[string]bool) error {
	p, err := open(h.loaded())
	if missing(err) {
		return nil
	}
	if err != nil {
		return err
	}
	defer func() { _ = p.close() }()
	var settings shapeShaperSettings
	if err := p.maps.DelayCurrent.Lookup(uint32(0), &settings); err != nil || settings.Kinds == 0 {
		return err
	}
	if err := h.removeOrphans(p); err != nil {
		return err
	}
	devices, err := egressDevices()
	for _, d := range devices {
		have, unread := h.find(d.Index, direction.Egress)
		if unread != nil {
			return unread
		}
		if have != nil {
			continue
		}
		l := unratedAt(d)
		l.Nested = shared[d.Name]
		if err := h.installOrClean(p, l); err != nil {
			return fmt.Errorf("shape at %s: %w", d.Name, err)
		}
	}
	return err
}
