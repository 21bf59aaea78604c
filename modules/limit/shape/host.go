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
	"weir/internal/fault"
	"weir/kernel/bpffs"
	"weir/kernel/cgroup"
	"weir/kernel/device"
	"weir/kernel/netns"
	"weir/kernel/rtnl"
)

// Host locates the state of the shapers. It has no state itself: every call finds the state of
// earlier calls, also by other processes.
type Host struct {
	Pins       string // bpffs folder of the shaping programs
	Devices    string // bpffs folder of the device attachments of all modules
	Files      string // folder of the records with former qdisc trees
	CgroupRoot string // its sockets are notified and paced
	// Namespaces calls a function for every network namespace, to pace and release open sockets;
	// nil for none.
	Namespaces func(func(*netns.Namespace) error) error
	// Foreign bounds how many network namespaces of other user namespaces pacing visits; nil for
	// the default. Release visits all network namespaces, so that no socket stays paced.
	Foreign *netns.Few
	// Describes skips all records, for the description of a policy without its host.
	Describes bool
}

const (
	owner     = "limit"
	ifbPrefix = "weir-in"
	notifyPin = "link-notify"
	// Redirection at ingress comes last, since later programs would not run. At egress packets are
	// charged after the other modules' programs and before foreign ones, which may end the chain.
	receiveOrder device.Order = device.MaxOrder
	chargeOrder  device.Order = 1
)

func ifbOf(index int) string { return fmt.Sprintf("%s%d", ifbPrefix, index) }

// Check returns an error for a shaper that this host cannot have. It changes nothing.
func (h Host) Check(l Shaper) error {
	if h.Files == "" && !h.Describes {
		return errors.New("no folder is set for the former qdisc trees of devices")
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
	if l.Nested {
		return nil
	}
	if have, err := h.record(l); err != nil || have != nil {
		return err // already installed
	}
	return device.CanTake(nil, l.Device)
}

// record returns the record of a shaper, or nil.
func (h Host) record(l Shaper) (*record, error) {
	if h.Describes {
		return nil, nil
	}
	return h.find(l.Index, l.Direction)
}

// checkUnowned is Check for a shaper that is not required. It also rejects a tree of Weir without a
// record, which a removed state folder or another Weir has left, and a device with a queue per CPU,
// which one fq would replace.
func (h Host) checkUnowned(l Shaper) error {
	if err := h.Check(l); err != nil || l.Nested || l.Direction == direction.Ingress {
		return err
	}
	have, err := h.record(l)
	if err != nil {
		return err
	}
	var tree device.Tree // of the device without Weir
	if have != nil && !have.Nested {
		tree = have.Taken.Before
		if other, err := have.Taken.Usurper(nil); err != nil || other != "" {
			return errors.Join(err, fault.New(fault.Usage, fmt.Sprintf("remove it to shape: tc qdisc del dev %s root", l.Device), "%w of %s by %s", ErrUsurped, l.Device, other))
		}
	} else if tree, err = device.Snapshot(nil, l.Device); err != nil {
		return err
	}
	advice := "write mode: shape if one queue is fast enough"
	switch {
	case have == nil && tree.IsWeirs() && !h.Describes:
		return fault.New(fault.Failed, fmt.Sprintf("release its policy, or remove it: tc qdisc del dev %s root", l.Device), "%s has queues of another Weir", l.Device)
	case len(tree.Qdiscs) > 0 && tree.Qdiscs[0].Kind == "mq":
		return fault.New(fault.Usage, advice, "one fq would replace the parallel queues (mq) of %s", l.Device)
	case have == nil && len(tree.Qdiscs) == 0:
		return neverUp(l.Device, advice)
	}
	return nil
}

// ErrUsurped is returned for a device on which another program has replaced the tree of Weir.
var ErrUsurped = errors.New("another program has replaced the queues")

// neverUp returns an error for a device that has no qdisc yet, and gets parallel queues with the
// first ip link set up. Afterwards its record would hide them.
func neverUp(dev, advice string) error {
	links, err := rtnl.Open(nil)
	if err != nil {
		return err
	}
	defer links.Close()
	d, err := links.Device(dev)
	if err == nil && !d.Up && d.Kind == "device" && d.Senders > 1 {
		err = fault.New(fault.Usage, advice+", or set it up first", "%s has never been up, and then gets parallel queues (mq)", dev)
	}
	return err
}

// Apply activates work and removes all other shapers; had are the assignments to remove. It is
// idempotent, also after a crash. Shapers that stay drop no packet.
func (h Host) Apply(had match.Assignments, work Work) error {
	ends, err := h.namespaceEnds(work.Shapers)
	if err != nil {
		return err
	}
	p, err := open(h.loaded())
	if missing(err) {
		if _, err := h.Release(); err != nil { // left by a crash or another version
			return err
		}
		if len(work.Shapers) == 0 {
			return nil
		}
		p, err = load(h.loaded(), len(work.Shapers)+len(ends))
	} else if err == nil {
		p, err = h.ensureCapacity(p, slices.Concat(work.Shapers, ends))
	}
	if err != nil {
		return err
	}
	defer func() { _ = p.close() }()
	want, err := h.AtDevices(work)
	if err != nil {
		return err
	}
	want = work.markNested(union(want, ends)) // Release above may have removed records of ends
	if err := h.removeOthers(p, want); err != nil {
		return err
	}
	if len(work.Shapers) == 0 {
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
		if err := h.installOrClean(p, l); err != nil {
			return fmt.Errorf("limit %s of %s: %w", l.Direction, l.Device, err)
		}
		sends = sends || l.Direction == direction.Egress || l.Rate == 0 // ingress of an end is egress of its namespace
	}
	if err := h.notify(p, sends); err != nil {
		return err
	}
	return h.pace(p, sends && !work.Unpaced, work.throttles())
}

// union appends the shapers of more without a counterpart (device and direction) in all.
func union(all, more []Shaper) []Shaper {
	for _, l := range more {
		if !slices.ContainsFunc(all, func(have Shaper) bool { return have.Index == l.Index && have.Direction == l.Direction }) {
			all = append(all, l)
		}
	}
	return all
}

// Yield removes all other shapers and restores the trees of nested ones, so that other qdisc owners
// can use the devices.
func (h Host) Yield(want []Shaper) error {
	p, err := open(h.loaded())
	switch {
	case missing(err):
		p = nil
	case err != nil:
		return err
	default:
		defer func() { _ = p.close() }()
	}
	if err := h.removeOthers(p, want); err != nil {
		return err
	}
	return h.restoreNested(want)
}

// removeOthers removes the shapers that are not in want.
func (h Host) removeOthers(p *programs, want []Shaper) error {
	stays := map[string]bool{}
	for _, l := range want {
		stays[recordKey(l.Index, l.Direction)] = true
	}
	return h.sweepRecords(p, func(key string, _ record) bool { return stays[key] })
}

// sweepRecords removes the shapers with records that stays rejects. p is nil if no programs are
// left.
func (h Host) sweepRecords(p *programs, stays func(key string, r record) bool) error {
	return h.store().Sweep(stays, func(r record) error {
		if err := h.uninstall(p, &r); err != nil {
			return fmt.Errorf("remove shaper (%s of %s): %w", r.Direction, r.Device, err)
		}
		return nil
	})
}

// install activates one shaper; packets are redirected to it last.
func (h Host) install(p *programs, l Shaper) error {
	mechanism, err := Available(l.Direction)
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
	if err == nil {
		err = h.same(links, l)
	}
	if err != nil {
		return err
	}
	r, err := h.acquire(l, at, there.Index)
	if err != nil {
		return err
	}
	if !l.Nested {
		if err := r.Taken.Replace(nil, l.tree(mechanism)); err != nil {
			return err
		}
	}
	if l.Rate > 0 || l.Parent > 0 {
		err = p.set(uint32(there.Index), l.config(mechanism))
	} else {
		err = p.clear(uint32(there.Index)) // for scopes only
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

// same returns an error if the shaper's name belongs to another device by now. Its record must not
// replace that of the device with the shaper's index.
func (h Host) same(links *rtnl.Conn, l Shaper) error {
	d, err := links.Device(l.Device)
	if err == nil && d.Index != l.Index {
		err = fault.New(fault.Failed, "apply the policy again; the daemon does so by itself", "%s was renamed or replaced in the meantime", l.Device)
	}
	return err
}

func (h Host) attach(dev string, hook device.Hook, order device.Order, program *ebpf.Program) error {
	a, err := device.Attach(nil, dev, hook, order, owner, program, device.Options{Pins: h.Devices})
	if err != nil {
		return err
	}
	return a.Close()
}

// detach removes the shaping program from a hook of a device that may have disappeared.
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

// uninstall removes one shaper; its redirection is removed first. p is nil if no programs are left.
func (h Host) uninstall(p *programs, r *record) error {
	named, err := deviceNames() // devices may have been renamed
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
			return fmt.Errorf("remove redirection: %w", err)
		}
	}
	if name, there := named[r.Taken.Index]; there {
		if err := h.detach(name, device.Egress); err != nil {
			return err
		}
	}
	if err := r.restore(); err != nil {
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

// notify notifies local TCP senders while an egress shaper is active.
func (h Host) notify(p *programs, sends bool) error {
	pin := filepath.Join(h.Pins, notifyPin)
	if !sends {
		return bpffs.Remove(pin)
	}
	return h.attachCgroup(pin, ebpf.AttachCGroupInetEgress, p.notify, "notify senders")
}

// attachCgroup attaches and pins a program at the sockets' cgroup, or updates the existing link.
func (h Host) attachCgroup(pin string, hook ebpf.AttachType, program *ebpf.Program, what string) error {
	l, err := link.LoadPinnedLink(pin, nil)
	if err == nil {
		defer func() { _ = l.Close() }()
		return bpffs.Fault(l.Update(program)) // the programs may have been reloaded
	}
	if !missing(err) {
		return bpffs.Opening(err)
	}
	l, err = cgroup.AttachProgram(h.CgroupRoot, hook, program)
	if err != nil {
		return programNeeds.Fault(what, err)
	}
	defer func() { _ = l.Close() }()
	return bpffs.Fault(l.Pin(pin))
}

// Release removes all shapers and all state, also after a crash; released reports whether there was
// any.
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
	all, err := h.store().All()
	if err != nil {
		return false, err
	}
	if err := h.sweepRecords(p, func(string, record) bool { return false }); err != nil {
		return true, err
	}
	if err := h.sweep(p != nil); err != nil {
		return true, err
	}
	pins, err := filepath.Glob(filepath.Join(h.Pins, "*"))
	if err == nil {
		err = bpffs.RemoveAll(h.Pins)
	}
	if h.Devices != "" {
		_ = os.Remove(h.Devices) // fails while other modules have pins in it
	}
	return len(all) > 0 || len(pins) > 0, err
}

// sweep removes ifbs without a record. Without loaded programs it removes none: they may belong to
// another host configuration.
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
