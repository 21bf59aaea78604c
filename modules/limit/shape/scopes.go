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
	"weir/kernel/rtnl"
)

// Work is what a host is to do.
type Work struct {
	Lines []Line
	// Assignments are the traffic of the lines of scopes; Places where their cgroups are, or come.
	Assignments match.Assignments
	Places      map[string]match.Place
	Unpaced     bool // TCP senders keep their own pace
	Unheld      bool // receivers keep their own windows
	// Shared are devices whose tree another room has, and keeps departure times in.
	Shared map[string]bool
}

// everywhere says whether packets are charged at every device, since scopes are told there.
func (w Work) scoped() bool { return len(w.Assignments) > 0 || len(w.Places) > 0 }

// devices are the lines of devices alone.
func (w Work) devices() (all []Line) {
	for _, l := range w.Lines {
		if l.Device != "" {
			all = append(all, l)
		}
	}
	return all
}

// upperKinds are kinds of devices whose packets leave by another device behind them, or that have no
// queue that Weir might take.
var upperKinds = []string{"bridge", "bond", "team", "vlan", "macvlan", "ipvlan", "vrf", "ifb", "vxlan", "geneve", "gre", "gretap", "erspan",
	"ip6gre", "ip6gretap", "ip6erspan", "ipip", "sit", "ip6tnl", "vti", "vti6", "xfrm", "wireguard", "nlmon", "vcan", "can"}

// exits are the devices by which packets leave this network namespace, each once: all but loopback
// and those whose packets leave by another one.
func egressDevices() (all []rtnl.Device, err error) {
	links, err := rtnl.Open(nil)
	if err != nil {
		return nil, err
	}
	defer links.Close()
	devices, err := links.Devices()
	for _, d := range devices {
		if d.Name != "lo" && !slices.Contains(upperKinds, d.Kind) {
			all = append(all, d)
		}
	}
	return all, err
}

func unratedAt(d rtnl.Device) Line {
	return Line{Device: d.Name, Index: d.Index, Direction: direction.Egress}
}

// unrated are lines without a rate: at the ends of network namespaces, and for the exits that have
// no other line, where scopes are told.
func (h Host) unrated(w Work) (all []Line, err error) {
	all, err = h.namespaceEnds(w.Lines)
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

// AtDevices are the lines of devices, and one without a rate for each where scopes alone are
// charged.
func (h Host) AtDevices(w Work) ([]Line, error) {
	passing, err := h.unrated(w)
	return w.markNested(append(w.devices(), passing...)), err
}

// Ready refuses scopes that this host cannot delay, before anything changes.
func (h Host) Ready(w Work) error {
	if len(w.Lines) > MaxLines {
		return fault.New(fault.Usage, "limit some of them by refusal", "%d limits by delay are more than %d", len(w.Lines), MaxLines)
	}
	namespaces := slices.ContainsFunc(w.Lines, func(l Line) bool { return l.Namespace != "" })
	if !w.scoped() && !namespaces {
		return nil
	}
	by, err := Available(direction.Egress)
	if err == nil && by != Fq {
		err = fault.New(fault.Testbed, "use a kernel with fq (CONFIG_NET_SCH_FQ), by: refusal, or a scope of an interface", "delay packets of scopes: the kernel has no fq, and a class of HTB has one rate")
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

// setScopes puts the lines of scopes into force and ends all others.
func (p *programs) setScopes(had match.Assignments, w Work) error {
	stays := map[uint32]bool{}
	for _, l := range w.Lines {
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
		kinds |= match.Cgroups // some may come
	}
	settings := shapeShaperSettings{Kinds: kinds}
	if w.throttles() {
		settings.Receives = 1
	}
	if err := p.maps.DelayCurrent.Put(uint32(0), settings); err != nil {
		return fmt.Errorf("set limits of scopes: %w", err)
	}
	return p.clearScopes(stays)
}

// holds says whether senders are to be held by the windows of their receivers here.
func (w Work) throttles() bool {
	received := func(l Line) bool { return l.Device != "" && l.Direction == direction.Ingress && l.Rate > 0 }
	return !w.Unpaced && !w.Unheld && slices.ContainsFunc(w.Lines, received)
}

// clearScopes ends the lines of all scopes but some.
func (p *programs) clearScopes(stays map[uint32]bool) error {
	var gone []uint32
	var key uint32
	var c shapeShaperConfig
	for each := p.maps.DelayConfigs.Iterate(); each.Next(&key, &c); {
		if key >= scopeKeys && !stays[key] {
			gone = append(gone, key)
		}
	}
	for _, key := range gone {
		if err := p.clear(key); err != nil {
			return err
		}
	}
	return nil
}

// Holds says whether traffic of a key is a scope's, whoever has bound it.
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

// FollowDevices has packets wait at the devices that have come to this thread's network namespace,
// where scopes are told at every device, and forgets those that have gone. Of shared ones another
// room has the tree.
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
		have, more := h.find(d.Index, direction.Egress)
		if more != nil {
			return more
		}
		if have != nil {
			continue
		}
		l := unratedAt(d)
		l.Nested = shared[d.Name]
		if err := h.installOrClean(p, l); err != nil {
			return fmt.Errorf("delay at %s: %w", d.Name, err)
		}
	}
	return err
}
