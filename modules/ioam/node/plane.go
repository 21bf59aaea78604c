// SPDX-License-Identifier: Apache-2.0

package node

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/cilium/ebpf"

	"weir/core/match"
	"weir/core/module"
	"weir/internal/fault"
	"weir/kernel/bpffs"
	"weir/kernel/cgroup"
	"weir/kernel/device"
	"weir/kernel/netns"
	"weir/kernel/rtnl"
	"weir/kernel/sysctl"
	"weir/modules/ioam/proof"
)

// hostPlane is the pinned data plane.
type hostPlane struct {
	host module.Host
	ns   *netns.Namespace // nil: the host's own
}

// NewPlane returns the pinned data plane of a host.
func NewPlane(h module.Host) module.Plane { return &hostPlane{host: h} }

// Ready rejects settings that this host cannot support.
func (p *hostPlane) Ready(want module.State) error {
	all := []error{want.Matchable(ebpf.SchedCLS)}
	different := map[string]bool{}
	d, err := p.wanted(want)
	if err != nil {
		return err
	}
	all = append(all, p.canTake(d.Node))
	for _, b := range want.Scopes {
		templates, err := d.templates(b.Scope)
		if err != nil {
			all = append(all, &module.Unsupported{Scope: b.Name, Key: Name, Err: err})
			continue
		}
		for _, t := range templates {
			different[t.key()] = true
		}
		if len(different) > MaxEncapsulations {
			all = append(all, &module.Unsupported{Scope: b.Name, Key: Name, Err: fault.New(fault.Usage, "give scopes the same options",
				"scopes have more than %d different encapsulations", MaxEncapsulations)})
			break
		}
	}
	return errors.Join(all...)
}

// wanted returns the declarations of a state, with the proofs from its files.
func (p *hostPlane) wanted(s module.State) (Config, error) {
	d := ConfigOf(s.Host)
	for id, ns := range d.Namespaces {
		if ns.ProofFile == "" {
			continue
		}
		var err error
		if ns.Proof, err = proof.ReadProfiles(ns.ProofFile); err != nil {
			return d, fmt.Errorf("ioam.namespaces.%d.proof: %w", id, err)
		}
		d.Namespaces[id] = ns
	}
	return d, nil
}

// InPlace reports whether the programs are attached to all existing devices.
func (p *hostPlane) InPlace(have module.State) (bool, error) {
	if bpffs.Replacing(p.host.Pins) {
		return false, nil
	}
	d, err := open(p.ns, p.host.Pins)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer func() { _ = d.close() }()
	var s ioamIoamSettings
	if err := d.objects.IoamNode.Lookup(uint32(0), &s); err != nil || s.Filled == 0 {
		return false, err
	}
	declared := ConfigOf(have.Host)
	found, err := p.lookFor(declared)
	if err != nil {
		return false, err
	}
	if declared.Node.SocketContext && !p.takesContexts() {
		return false, nil
	}
	for _, i := range found.there {
		var entry ioamIoamInterface
		hooks, err := device.Hooks(p.ns, i.Device.Name, attachName, p.host.Devices)
		if err != nil {
			return false, err
		}
		if len(hooks) != 2 || d.objects.IoamInterfaces.Lookup(uint32(i.Index), &entry) != nil || p.lostReserve(i, entry) {
			return false, nil
		}
	}
	return true, nil
}

// Apply applies a state: namespaces and interfaces first, then scopes, programs at devices last,
// and then the removal of obsolete ones.
func (p *hostPlane) Apply(have, want module.State) (notes []string, err error) {
	wanted, err := p.wanted(want)
	if err != nil {
		return nil, err
	}
	d, err := p.open(sizesOf(want, wanted, have))
	if err != nil {
		return nil, err
	}
	defer func() { _ = d.close() }()
	found, err := p.lookFor(wanted)
	if err != nil {
		return nil, err
	}
	notes, err = p.fill(d, have, want, wanted, found.there)
	if err != nil {
		return notes, err
	}
	if err := p.setSockets(d, wanted.Node.SocketContext); err != nil {
		return notes, err
	}
	for _, i := range found.there {
		if err := d.attach(i.Device.Name, i.Header == 0, p.host.Devices); err != nil {
			return notes, err
		}
	}
	return append(notes, found.notes()...), p.leaveOthers(d, found.there)
}

// fill writes a state into the maps and lowers MTUs.
func (p *hostPlane) fill(d *dataPlane, have, want module.State, wanted Config, there []place) (notes []string, err error) {
	if err := errors.Join(d.setNamespaces(wanted.Namespaces), d.setInterfaces(there)); err != nil {
		return nil, err
	}
	kinds, err := d.setScopes(have, want, p.wholeHost(), wanted)
	if err != nil {
		return nil, err
	}
	flagged, err := p.flagged(there, wanted.Node)
	if err != nil {
		return nil, err
	}
	if err := d.setNode(wanted, kinds, flagged); err != nil {
		return nil, err
	}
	return p.reserve(d, there, want, wanted)
}

// wholeHost returns the key of the root cgroup; zero without cgroups.
func (p *hostPlane) wholeHost() match.Key {
	root, err := cgroup.Cgroup{Path: p.host.CgroupRoot}.ID()
	if p.host.CgroupRoot == "" || err != nil {
		return match.Key{}
	}
	return match.OfCgroup(root)
}

// leaveOthers removes the programs from obsolete devices.
func (p *hostPlane) leaveOthers(d *dataPlane, there []place) error {
	stays := map[uint32]bool{}
	for _, i := range there {
		stays[uint32(i.Index)] = true
	}
	entries, err := d.interfaceEntries()
	if err != nil {
		return err
	}
	conn, err := rtnl.Open(p.ns)
	if err != nil {
		return err
	}
	defer conn.Close()
	devices, err := conn.Devices()
	if err != nil {
		return err
	}
	for _, index := range slices.Sorted(maps.Keys(entries)) {
		at := slices.IndexFunc(devices, func(d rtnl.Device) bool { return d.Index == int(index) })
		if stays[index] || at < 0 {
			continue
		}
		if err := errors.Join(detach(p.ns, devices[at].Name, p.host.Devices), p.restoreMTU(devices[at].Name, entries[index])); err != nil {
			return err
		}
	}
	if err := prune(d.objects.IoamInterfaces, func(index uint32) bool { return stays[index] }); err != nil {
		return err
	}
	return d.renew()
}

// interfaceEntries returns the entries by ifindex.
func (d *dataPlane) interfaceEntries() (map[uint32]ioamIoamInterface, error) {
	found := map[uint32]ioamIoamInterface{}
	var index uint32
	var entry ioamIoamInterface
	all := d.objects.IoamInterfaces.Iterate()
	for all.Next(&index, &entry) {
		found[index] = entry
	}
	if err := all.Err(); err != nil {
		return nil, fmt.Errorf("read interfaces: %w", err)
	}
	return found, nil
}

// open opens the pinned data plane with enough capacity for a policy, or loads one.
func (p *hostPlane) open(s sizes) (*dataPlane, error) {
	if err := bpffs.Complete(p.host.Pins); err != nil {
		return nil, err
	}
	d, err := open(p.ns, p.host.Pins)
	if err == nil {
		return d.withCapacity(s)
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return d, err
	}
	// Incomplete pins of a crash, or of another version of Weir, are unusable.
	if _, err := p.Release(); err != nil {
		return nil, err
	}
	if d, err = load(p.ns, p.host.Pins, s); err != nil {
		return nil, err
	}
	if err := d.pin(); err != nil {
		_ = d.close()
		return nil, err
	}
	return d, nil
}

// mtuKey returns the sysctl of a device's IPv6 MTU.
func mtuKey(dev string) string { return "net/ipv6/conf/" + dev + "/mtu" }

// reserve lowers the IPv6 MTU of interfaces that reserve space for options, and restores it on
// others. The former MTU is stored with the interface.
func (p *hostPlane) reserve(d *dataPlane, there []place, want module.State, wanted Config) (notes []string, err error) {
	largest := 0
	for _, b := range want.Scopes {
		templates, err := wanted.templates(b.Scope)
		for _, t := range templates {
			if err == nil && !b.Shadow {
				largest = max(largest, t.size())
			}
		}
	}
	for _, i := range there {
		var entry ioamIoamInterface
		if err := d.objects.IoamInterfaces.Lookup(uint32(i.Index), &entry); err != nil {
			return notes, fmt.Errorf("read interface %s: %w", i.Device.Name, err)
		}
		if !i.Reserve || !i.Egress || largest == 0 {
			if err := p.restoreMTU(i.Device.Name, entry); err != nil {
				return notes, err
			}
			entry.MtuBefore, entry.MtuSet = 0, 0
		} else if note, err := p.lowerMTU(i, &entry, largest); err != nil {
			return notes, err
		} else if note != "" {
			notes = append(notes, note)
		}
		if err := d.objects.IoamInterfaces.Put(uint32(i.Index), entry); err != nil {
			return notes, fmt.Errorf("set interface %s: %w", i.Device.Name, err)
		}
	}
	return notes, nil
}

const minMTU = 1280 // minimum IPv6 MTU (RFC 8200 section 5)

func (p *hostPlane) lowerMTU(i place, entry *ioamIoamInterface, module int) (note string, err error) {
	now, err := sysctl.Get(p.ns, mtuKey(i.Device.Name))
	if err != nil {
		return "", err
	}
	is, err := strconv.Atoi(now)
	if err != nil {
		return "", fmt.Errorf("read MTU of %s: %w", i.Device.Name, err)
	}
	if entry.MtuBefore == 0 || uint32(is) != entry.MtuSet {
		entry.MtuBefore = uint32(is)
	}
	to := i.MTU - module
	if to < minMTU {
		return fmt.Sprintf("ioam: the MTU of %s, %d, has no space for %d bytes of options: long packets get none", i.Device.Name, i.MTU, module), nil
	}
	entry.MtuSet = uint32(to)
	return "", sysctl.Set(p.ns, mtuKey(i.Device.Name), strconv.Itoa(to))
}

// lostReserve reports whether the kernel reset a lowered IPv6 MTU, as it does when the device's MTU
// changes.
func (p *hostPlane) lostReserve(i place, entry ioamIoamInterface) bool {
	if entry.MtuSet == 0 {
		return false
	}
	now, err := sysctl.Get(p.ns, mtuKey(i.Device.Name))
	is, wrong := strconv.Atoi(now)
	reserved := int(entry.Mtu) - int(entry.MtuSet)
	return err == nil && wrong == nil && is > i.MTU-reserved && i.MTU-reserved >= minMTU
}

// restoreMTU reverts lowerMTU, unless the MTU was changed since.
func (p *hostPlane) restoreMTU(dev string, entry ioamIoamInterface) error {
	if entry.MtuBefore == 0 || entry.MtuSet == 0 {
		return nil
	}
	if now, err := sysctl.Get(p.ns, mtuKey(dev)); err != nil || now != strconv.Itoa(int(entry.MtuSet)) {
		return err
	}
	return sysctl.Set(p.ns, mtuKey(dev), strconv.Itoa(int(entry.MtuBefore)))
}

// Release ends everything.
func (p *hostPlane) Release() (released bool, err error) {
	pins := p.host.Pins
	left, err := filepath.Glob(filepath.Join(pins, "*"))
	if err != nil {
		return false, err
	}
	released = len(left) > 0
	conn, err := rtnl.Open(p.ns)
	if err != nil {
		return released, err
	}
	defer conn.Close()
	devices, err := conn.Devices()
	if err != nil {
		return released, err
	}
	entries := map[uint32]ioamIoamInterface{}
	if d, err := open(p.ns, pins); err == nil {
		entries, _ = d.interfaceEntries()
		_ = d.close()
	}
	for _, dev := range devices {
		found, err := device.Attached(p.ns, dev.Name, attachName, p.host.Devices)
		if err != nil {
			return released, err
		}
		for _, a := range found {
			released = true
			if err := a.Detach(); err != nil {
				return released, err
			}
		}
		if err := p.restoreMTU(dev.Name, entries[uint32(dev.Index)]); err != nil {
			return released, err
		}
	}
	return released, errors.Join(device.Forget(p.host.Devices, attachName), unpin(pins))
}
