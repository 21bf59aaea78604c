// SPDX-License-Identifier: Apache-2.0

package links

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/cilium/ebpf"

	"weir/core/module"
	"weir/internal/fault"
	"weir/internal/units"
	"weir/kernel/bpffs"
	"weir/kernel/device"
	"weir/kernel/ethtool"
	"weir/kernel/probe"
	"weir/kernel/rtnl"
	"weir/kernel/tc"
)

// hostPlane is the data plane: a qdisc tree at each link, and the record of the former tree.
type hostPlane struct{ host module.Host }

// treatments returns the active treatments without shadow ones, by device.
func treatments(s module.State) map[string]*Treatment {
	all := map[string]*Treatment{}
	for _, item := range s.Host {
		if t, ok := item.Treatment.(*Treatment); ok && !t.Shadow {
			all[t.Device] = t
		}
	}
	return all
}

// devices returns the devices of this network namespace by name.
func devices() (map[string]rtnl.Device, error) {
	links, err := rtnl.Open(nil)
	if err != nil {
		return nil, err
	}
	defer links.Close()
	all, err := links.Devices()
	named := map[string]rtnl.Device{}
	for _, d := range all {
		named[d.Name] = d
	}
	return named, err
}

// Ready rejects links that this host cannot support.
func (p *hostPlane) Ready(want module.State) error {
	if err := errors.Join(bpffs.CanPin(p.host.Pins), probe.ProgramType(ebpf.SchedCLS), probe.Qdisc("htb"), probe.Qdisc("tbf"),
		probe.Classifier("bpf")); err != nil {
		return err
	}
	known, err := devices()
	if err != nil {
		return err
	}
	formers, err := p.formers().All()
	if err != nil {
		return err
	}
	var all []error
	links := shadows(want)
	maps.Copy(links, treatments(want))
	for name, t := range links {
		if err := t.ready(known, formers); err != nil {
			all = append(all, fmt.Errorf("links.%s: %w", name, err))
		}
	}
	return errors.Join(all...)
}

// ready checks one link. A missing device may return.
func (t *Treatment) ready(known map[string]rtnl.Device, formers []device.Record) error {
	for _, c := range t.Classes {
		if err := c.ready(); err != nil {
			return fmt.Errorf("classes.%s.%w", c.Name, err)
		}
	}
	d, there := known[t.Device]
	if !there {
		if had(formers, t.Device) {
			return nil
		}
		return fault.New(fault.Usage, "look with ip link, or leave the link out", "there is no device %s", t.Device)
	}
	if speed, err := ethtool.Speed(nil, t.Device); err == nil {
		if err := t.fits(speed); err != nil {
			return err
		}
	}
	if _, taken := find(formers, d); taken {
		return nil
	}
	return device.CanTake(nil, t.Device)
}

// ready rejects a requested qdisc that this kernel lacks.
func (c Class) ready() error {
	asked := c.keptIn(features{})
	if asked == Fifo {
		return nil
	}
	err := probe.Qdisc(string(asked))
	switch {
	case err == nil:
		return nil
	case c.Leaf == "":
		return fault.Wrap(fmt.Errorf("ecn: %w", err), fault.Testbed, "leave ecn out: packets are then dropped where they would be marked")
	}
	return fault.Wrap(fmt.Errorf("leaf: %w", err), fault.Testbed, "remove leaf: the class then uses a qdisc of this kernel")
}

// fits rejects a rate above the device's speed; 0 is unknown.
func (t *Treatment) fits(speed units.BitRate) error {
	if speed == 0 || t.Rate <= speed {
		return nil
	}
	return fault.New(fault.Usage, "write the rate of the device or less",
		"rate: the device carries %s: at %s packets would wait behind the classes", speed, t.Rate)
}

// Apply sets up the tree of each link, and restores the former tree of obsolete ones. It can be
// repeated after a crash at any point.
func (p *hostPlane) Apply(_, want module.State) (notes []string, err error) {
	known, err := devices()
	if err != nil {
		return nil, err
	}
	notes = p.PlanNotes(want)
	if err := errors.Join(p.sweep(want, known), p.lead(want, known)); err != nil {
		return nil, err
	}
	formers, err := p.formers().All()
	if err != nil {
		return nil, err
	}
	for _, item := range want.Host {
		t, ok := item.Treatment.(*Treatment)
		if !ok || t.Shadow {
			continue
		}
		note, err := p.put(t, want.Shared[t.Device], known, formers)
		if err != nil {
			return nil, fmt.Errorf("links.%s: %w", t.Device, err)
		}
		notes = append(notes, note...)
	}
	return notes, nil
}

// sweep restores the former trees of links that are not wanted any more.
func (p *hostPlane) sweep(want module.State, known map[string]rtnl.Device) error {
	if err := p.adopt(); err != nil {
		return err
	}
	links := treatments(want)
	now := map[int]string{}
	for name, d := range known {
		now[d.Index] = name
	}
	return p.formers().Sweep(func(_ string, f device.Record) bool {
		if name, there := now[f.Index]; there && f.Here() {
			return links[name] != nil // also if the device was renamed
		}
		_, replaced := known[f.Device]
		return links[f.Device] != nil && !replaced
	}, p.restore)
}

// QdiscDevices lists the links.
func (p *hostPlane) QdiscDevices(s module.State) (names []string) {
	return slices.Collect(maps.Keys(treatments(s)))
}

// CanHost returns the missing feature for shaped packets of module limit to wait in the links'
// trees.
func (p *hostPlane) CanHost() error {
	if err := probe.Qdisc("fq"); err != nil {
		return fault.Wrap(fmt.Errorf("keep departure times below classes: %w", err), fault.Testbed,
			"use a kernel with fq (CONFIG_NET_SCH_FQ), or leave mode: shape out")
	}
	return nil
}

// CanNest returns ErrNotShared: the classes need the device's own tree.
func (p *hostPlane) CanNest(module.State, string) error { return module.ErrNotShared }

// Yield restores the former trees of links that are not wanted any more.
func (p *hostPlane) Yield(want module.State) error {
	known, err := devices()
	if err != nil {
		return err
	}
	return p.sweep(want, known)
}

// put sets up the tree of a link; a shared one has queues for shaped packets too.
func (p *hostPlane) put(t *Treatment, shared bool, known map[string]rtnl.Device, formers []device.Record) (notes []string, err error) {
	d, there := known[t.Device]
	if !there {
		return []string{fmt.Sprintf("links.%s: the device is gone; weir daemon, or the next apply, sets up its classes when it is back", t.Device)}, nil
	}
	f, err := p.acquire(d, formers)
	if err != nil {
		return nil, err
	}
	program, id, err := t.load(shared)
	if err != nil {
		return nil, err
	}
	defer func() { _ = program.Close() }()
	kernel := features{fqCodel: probe.Qdisc("fq_codel") == nil, later: shared}
	if err := f.Replace(nil, t.tree(id, d.MTU, kernel)); err != nil {
		return nil, err
	}
	return t.notes(kernel), nil
}

// notes returns notes for the user about an active link.
func (t *Treatment) notes(kernel features) (notes []string) {
	for _, c := range t.Classes {
		if c.ECN == MayMark && c.Leaf == "" && !kernel.fqCodel {
			notes = append(notes, fmt.Sprintf("links.%s: class %s is first in, first out, without ECN: this kernel has no fq_codel", t.Device, c.Name))
		}
		if c.Name == lowEffort && c.Weight == 0 {
			notes = append(notes, fmt.Sprintf("links.%s: class %s has no share of its own: while others fill the link, it gets %s", t.Device, c.Name, minShare))
		}
	}
	return notes
}

// InPlace reports whether every existing link has its tree for its current MTU.
func (p *hostPlane) InPlace(have module.State) (bool, error) {
	formers, err := p.formers().All()
	if err != nil {
		return false, err
	}
	known, err := devices()
	if err != nil {
		return false, err
	}
	counted, err := p.countedAt(known)
	if err != nil || have.Empty() {
		return len(formers)+len(counted) > 0, err
	}
	for name := range shadows(have) {
		if _, there := known[name]; there && !counted[name] {
			return false, nil
		}
	}
	for name := range treatments(have) {
		d, there := known[name]
		if !there {
			continue
		}
		if _, taken := find(formers, d); !taken {
			return false, nil
		}
		tree, err := device.Snapshot(nil, name)
		if errors.Is(err, device.ErrGone) {
			continue
		}
		if err != nil || !complete(tree, d.MTU, have.Shared[name]) {
			return false, err
		}
	}
	return true, nil
}

// complete reports whether a tree is Weir's, passes frames of this MTU, and, if shared, has queues
// for shaped packets.
func complete(t device.Tree, mtu int, shared bool) bool {
	later := slices.ContainsFunc(t.Classes, func(c tc.Raw) bool { return c.Handle == laterOf(0) })
	if !t.IsWeirs() || len(t.Filters) == 0 || later != shared {
		return false
	}
	for _, q := range t.Qdiscs {
		if frame := q.SplitsAt(); frame != 0 && frame < maxFrame(mtu) {
			return false
		}
	}
	return true
}

// Release restores every former tree.
func (p *hostPlane) Release() (released bool, err error) {
	_, found := os.Stat(p.host.Pins)
	if err := p.adopt(); err != nil {
		return false, err
	}
	formers, err := p.formers().All()
	if err != nil {
		return false, err
	}
	known, err := devices()
	if err != nil {
		return false, err
	}
	counted, err := p.countedAt(known)
	if err == nil {
		err = p.lead(module.State{}, known)
	}
	none := func(string, device.Record) bool { return false }
	if err := errors.Join(err, device.Forget(p.host.Devices, moduleName), p.formers().Sweep(none, p.restore)); err != nil {
		return false, err
	}
	// Remains of programs after a crash.
	pins, err := filepath.Glob(filepath.Join(p.host.Pins, "*"))
	if err != nil {
		return false, fmt.Errorf("find pins: %w", err)
	}
	return found == nil || len(formers) > 0 || len(counted) > 0, bpffs.Remove(append(pins, p.host.Pins)...)
}
