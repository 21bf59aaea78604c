// SPDX-License-Identifier: Apache-2.0

package shape

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"

	"weir/core/match"
	"weir/internal/direction"
	"weir/kernel/bpffs"
	"weir/kernel/device"
	"weir/kernel/netns"
	"weir/kernel/rtnl"
)

// Host is where the lines are. It holds nothing but names; every call finds what earlier ones, of
// other processes too, have left.
type Host struct {
	Pins       string // folder of a BPF file system for the programs alone
	Devices    string // one for what all rooms attach to devices
	Files      string // folder of what was on devices before
	CgroupRoot string // whose sockets are notified, and paced
	// Namespaces calls a function for every network namespace, whose open sockets are paced too,
	// and set free at the end; nil for none.
	Namespaces func(func(*netns.Namespace) error) error
	// Foreign are those of other user namespaces that are visited to have sockets paced; nil for
	// none. To set them free all are: who is paced there would be for good.
	Foreign *netns.Few
}

const (
	owner     = "limit"
	ifbPrefix = "weir-in"
	notifyPin = "link-notify"
	// What is received is redirected behind all other programs, since those do not see it again; at
	// egress a packet is charged behind Weir's other programs and before those of others, which may
	// end the list.
	receiveOrder device.Order = device.MaxOrder
	chargeOrder  device.Order = 1
)

func ifbOf(index int) string { return fmt.Sprintf("%s%d", ifbPrefix, index) }

// Check refuses lines that this host cannot have, before anything changes.
func (h Host) Check(l Line) error {
	if h.Files == "" {
		return errors.New("there is no folder to keep what was on the device before")
	}
	if _, err := Available(l.Direction); err != nil {
		return err
	}
	links, err := rtnl.Open(nil)
	if err != nil {
		return err
	}
	defer links.Close()
	d, err := links.Device(l.Device)
	if err != nil {
		return err
	}
	if err := l.check(d.Header); err != nil || l.Direction == direction.Ingress {
		return err
	}
	if have, err := h.find(l.Index, l.Direction); err != nil || have != nil || l.Nested {
		return err // it has it already
	}
	return device.CanTake(nil, l.Device)
}

// Apply puts work into force in the place of other work, whose assignments end, and ends all other
// lines. It can be repeated, from whatever state a crash has left. What is in force already and
// stays has no packet dropped.
func (h Host) Apply(had match.Assignments, work Work) error {
	leads, err := h.leading(work.Lines)
	if err != nil {
		return err
	}
	p, err := open(h.loaded())
	if missing(err) {
		if _, err := h.Release(); err != nil { // what a crash or another version has left
			return err
		}
		if len(work.Lines) == 0 {
			return nil
		}
		p, err = load(h.loaded(), len(work.Lines)+len(leads))
	} else if err == nil {
		p, err = h.withRoom(p, slices.Concat(work.Lines, leads))
	}
	if err != nil {
		return err
	}
	defer func() { _ = p.close() }()
	want, err := h.AtDevices(work)
	if err != nil {
		return err
	}
	want = work.nest(withThose(want, leads)) // of which a release has forgotten some
	if err := h.endOthers(p, want); err != nil {
		return err
	}
	if len(work.Lines) == 0 {
		_ = p.close()
		_, err := h.Release()
		return err
	}
	if err := match.Sweep(h.Pins, p.maps.ScopeCgroups, had, work.Assignments); err != nil {
		return err
	}
	if err := p.setScopes(had, work); err != nil {
		return err
	}
	if err := match.Rebind(h.Pins, p.maps.ScopeCgroups, work.Places); err != nil && !errors.Is(err, ebpf.ErrNotSupported) {
		return err
	}
	sends := false
	for _, l := range want {
		if err := h.beginWhereItIs(p, l); err != nil {
			return fmt.Errorf("limit %s of %s: %w", l.Direction, l.Device, err)
		}
		sends = sends || l.Direction == direction.Egress || l.Rate == 0 // a namespace sends what is received at its end
	}
	if err := h.notify(p, sends); err != nil {
		return err
	}
	return h.pace(p, sends && !work.Unpaced, work.holds())
}

// withThose adds lines of devices to others that are not of the same.
func withThose(all, more []Line) []Line {
	for _, l := range more {
		if !slices.ContainsFunc(all, func(have Line) bool { return have.Index == l.Index && have.Direction == l.Direction }) {
			all = append(all, l)
		}
	}
	return all
}

// Yield ends the lines that are not wanted, and gives the trees of those back that are to be
// nested, so that others can have their devices.
func (h Host) Yield(want []Line) error {
	p, err := open(h.loaded())
	switch {
	case missing(err):
		p = nil
	case err != nil:
		return err
	default:
		defer func() { _ = p.close() }()
	}
	if err := h.endOthers(p, want); err != nil {
		return err
	}
	return h.giveBackNested(want)
}

// endOthers ends the lines that are not wanted.
func (h Host) endOthers(p *programs, want []Line) error {
	all, err := h.records()
	if err != nil {
		return err
	}
	stays := map[string]bool{}
	for _, l := range want {
		stays[recordName(l.Index, l.Direction)] = true
	}
	for _, r := range all {
		if !stays[recordName(r.Index, r.Direction)] {
			if err := h.end(p, r); err != nil {
				return err
			}
		}
	}
	return nil
}

// begin puts one line into force: last of all what leads packets to it.
func (h Host) begin(p *programs, l Line) error {
	by, err := Available(l.Direction)
	if err != nil {
		return err
	}
	links, err := rtnl.Open(nil)
	if err != nil {
		return err
	}
	defer links.Close()
	at := l.Device
	if l.Direction == direction.Ingress {
		at = ifbOf(l.Index)
		if err := errors.Join(links.AddIFB(at), links.SetUp(at)); err != nil {
			return err
		}
	}
	there, err := links.Device(at)
	if err != nil {
		return err
	}
	r, err := h.take(l, at, there.Index)
	if err != nil {
		return err
	}
	if !l.Nested {
		if err := r.Taken.Replace(nil, l.tree(by)); err != nil {
			return err
		}
	}
	if l.Rate > 0 || l.Parent > 0 {
		err = p.set(uint32(there.Index), l.config(by))
	} else {
		err = p.clear(uint32(there.Index)) // it carries scopes alone
	}
	if err != nil {
		return err
	}
	if err := h.attach(at, device.Egress, chargeOrder, p.charge); err != nil || l.Direction == direction.Egress {
		return err
	}
	if err := p.maps.DelayReceivers.Put(uint32(l.Index), uint32(there.Index)); err != nil {
		return fmt.Errorf("redirect to %s: %w", at, err)
	}
	return h.attach(l.Device, device.Ingress, receiveOrder, p.receive)
}

func (h Host) attach(dev string, hook device.Hook, order device.Order, program *ebpf.Program) error {
	a, err := device.Attach(nil, dev, hook, order, owner, program, device.Options{Pins: h.Devices})
	if err != nil {
		return err
	}
	return a.Close()
}

// detach takes Weir's program for limits from a hook of a device, which may be gone.
func (h Host) detach(dev string, hook device.Hook) error {
	found, err := device.Attached(nil, dev, owner, h.Devices)
	if errors.Is(err, device.ErrGone) {
		return nil
	}
	for _, a := range found {
		if a.Hook == hook {
			err = errors.Join(err, a.Detach())
		} else {
			err = errors.Join(err, a.Close())
		}
	}
	return err
}

// end ends one line: first of all what leads packets to it. p is nil where no program is left.
func (h Host) end(p *programs, r *record) error {
	if err := h.stop(p, r); err != nil {
		return fmt.Errorf("end limit %s of %s: %w", r.Direction, r.Device, err)
	}
	return h.forget(r)
}

func (h Host) stop(p *programs, r *record) error {
	named, err := names() // a device may have another one now
	if err != nil {
		return err
	}
	if name, there := named[r.Index]; there && r.Direction == direction.Ingress {
		if err := h.detach(name, device.Ingress); err != nil {
			return err
		}
	}
	if p != nil && r.Direction == direction.Ingress {
		if err := p.maps.DelayReceivers.Delete(uint32(r.Index)); err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
			return fmt.Errorf("end the redirection: %w", err)
		}
	}
	if name, there := named[r.Taken.Index]; there {
		if err := h.detach(name, device.Egress); err != nil {
			return err
		}
	}
	if err := r.giveBack(); err != nil {
		return err
	}
	if name, there := named[r.Taken.Index]; there && r.Direction == direction.Ingress && name == ifbOf(r.Index) {
		if err := deleteDevice(name); err != nil {
			return err
		}
	}
	if p == nil {
		return nil
	}
	return p.clear(uint32(r.Taken.Index))
}

// notify has TCP senders of this host told, as long as a line of egress is in force.
func (h Host) notify(p *programs, sends bool) error {
	pin := filepath.Join(h.Pins, notifyPin)
	if !sends {
		return bpffs.Remove(pin)
	}
	return h.attachCgroup(pin, ebpf.AttachCGroupInetEgress, p.notify, "notify senders")
}

// attachCgroup attaches a program to the sockets' cgroup and pins that, or has it take the place of
// the one that is.
func (h Host) attachCgroup(pin string, hook ebpf.AttachType, program *ebpf.Program, what string) error {
	l, err := link.LoadPinnedLink(pin, nil)
	if err == nil {
		defer func() { _ = l.Close() }()
		return bpffs.Fault(l.Update(program)) // the programs may be others
	}
	if !missing(err) {
		return bpffs.Opening(err)
	}
	l, err = link.AttachCgroup(link.CgroupOptions{Path: h.CgroupRoot, Attach: hook, Program: program})
	if err != nil {
		return programNeeds.Fault(what, err)
	}
	defer func() { _ = l.Close() }()
	return bpffs.Fault(l.Pin(pin))
}

// Release ends all lines and removes every trace, whatever state a crash has left; released says
// whether there was any.
func (h Host) Release() (released bool, err error) {
	p, err := open(h.loaded())
	if err != nil && !missing(err) {
		return false, err
	}
	if missing(err) {
		p = nil
	} else {
		defer func() { _ = p.close() }()
	}
	if err := h.Unpace(); err != nil {
		return true, err
	}
	all, err := h.records()
	if err != nil {
		return false, err
	}
	for _, r := range all {
		if err := h.end(p, r); err != nil {
			return true, err
		}
	}
	if err := h.sweep(p != nil); err != nil {
		return true, err
	}
	pins, err := filepath.Glob(filepath.Join(h.Pins, "*"))
	if err == nil {
		err = bpffs.RemoveAll(h.Pins)
	}
	if h.Devices != "" {
		_ = os.Remove(h.Devices) // unless other rooms have pins in it
	}
	return len(all) > 0 || len(pins) > 0, err
}

// sweep removes ifbs that were made and not entered. Without programs of this host's there is none:
// another one's stay.
func (h Host) sweep(loaded bool) error {
	if !loaded {
		return nil
	}
	links, err := rtnl.Open(nil)
	if err != nil {
		return err
	}
	defer links.Close()
	left, err := links.IFBs(ifbPrefix)
	for _, name := range left {
		err = errors.Join(err, links.Delete(name))
	}
	return err
}
