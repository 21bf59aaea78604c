// SPDX-License-Identifier: Apache-2.0

package device

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/cilium/ebpf"

	"weir/internal/fault"
	"weir/kernel/netns"
	"weir/kernel/tc"
)

// RootHandle is the handle of the root of every tree that Weir puts in place, 77e1:. It marks the
// device as Weir's for every process, and for people who look with tc.
const RootHandle tc.Handle = 0x77e1 << 16

// Record says what was on a device before an owner took it. It goes into a journal as JSON before
// anything changes: whoever has it can bring the former tree back after a crash, in another process
// too.
type Record struct {
	Owner     string `json:"owner"` // the room
	Device    string `json:"device"`
	Index     int    `json:"index"`
	Namespace uint64 `json:"namespace"` // its inode
	Boot      string `json:"boot"`
	Before    Tree   `json:"before"`
	Pins      string `json:"pins,omitempty"` // where programs of the former filters are kept
}

// Take is what an owner begins with who is to replace a device's tree. Nothing changes yet: what
// could not be restored is refused here, and so is a tree of Weir's. Programs of the former tree's
// filters are pinned in a folder of a BPF file system, pins; "" refuses such trees. Of two owners
// that took a device before either replaced its tree the later one wins: the spine lets one room at
// a time have it (room.Taker).
func Take(ns *netns.Namespace, dev, owner, pins string) (Record, error) {
	r, err := Name(ns, dev, owner)
	if err != nil {
		return Record{}, err
	}
	before, err := Snapshot(ns, dev)
	if err != nil {
		return Record{}, err
	}
	r.Before, r.Pins = before, pins
	if before.ours() {
		root, _ := before.root()
		return Record{}, fault.New(fault.Failed, "release it first; the journal of who took it can restore it",
			"take %s: it has a tree of Weir's already (%s %s)", dev, root.Kind, root.Handle)
	}
	if err := Restorable(ns, dev, before); err != nil {
		return Record{}, err
	}
	return r, r.keep()
}

// Name is a record of a device, nothing of which is taken: it says which one it is, in the
// namespace that it is in.
func Name(ns *netns.Namespace, dev, owner string) (Record, error) {
	conn, index, err := open(ns, dev)
	if err != nil {
		return Record{}, err
	}
	conn.Close()
	r := Record{Owner: owner, Device: dev, Index: index}
	if r.Namespace, err = inode(ns); err != nil {
		return Record{}, err
	}
	r.Boot, err = bootID()
	return r, err
}

// Here says whether the record is of this boot and of a device of the calling thread's network
// namespace.
func (r Record) Here() bool {
	boot, err := bootID()
	if err != nil || boot != r.Boot {
		return false
	}
	namespace, err := inode(nil)
	return err == nil && namespace == r.Namespace
}

// ours says whether a tree is one of Weir's.
func (t Tree) ours() bool {
	root, _ := t.root()
	return root.Handle == RootHandle
}

// CanTake says why a device's tree could not be replaced and restored. One of Weir's can be given
// back by the room that has put it there.
func CanTake(ns *netns.Namespace, dev string) error {
	tree, err := Snapshot(ns, dev)
	if err != nil || tree.ours() {
		return err
	}
	return Restorable(ns, dev, tree)
}

// Restorable says what of a device's tree could not be put back exactly, and why: a kind whose dump
// does not tell everything, filters with actions, or what comes out different in a rehearsal on a
// device of its own. The hook's part is not looked at, since it is never replaced.
func Restorable(ns *netns.Namespace, dev string, t Tree) error {
	refuse := func(x tc.Raw, what, why string) error {
		return fault.New(fault.Usage, fmt.Sprintf("replace it yourself: tc qdisc del dev %s root", dev),
			"%s: the %s %s %s at %s could not be restored: %s", dev, what, x.Kind, x.Handle, x.Parent, why)
	}
	if t.isDefault() {
		return nil
	}
	for _, part := range []struct {
		sort tc.Message
		what string
		list []tc.Raw
	}{{tc.QdiscMessage, "qdisc", t.made().Qdiscs}, {tc.FilterMessage, "filter", t.Filters}} {
		for _, x := range part.list {
			if why := x.Hidden(part.sort); why != "" {
				return refuse(x, part.what, why)
			}
		}
	}
	conn, index, err := open(ns, dev)
	if err != nil {
		return err
	}
	conn.Close()
	s, err := shapeOf(ns, index)
	if err != nil {
		return err
	}
	got, err := rehearse(s, t)
	why := ""
	if err != nil {
		why = err.Error()
	} else if d := differences(t.made(), got); d != "" {
		why = "in a rehearsal " + d
	}
	if why != "" {
		root, _ := t.root()
		return refuse(root, "tree of", why)
	}
	return nil
}

// keep pins the programs of filters that will be removed.
func (r Record) keep() error {
	for _, f := range r.Before.Filters {
		id := f.BPF().ID
		if id == 0 {
			continue
		}
		if r.Pins == "" {
			return fault.New(fault.Usage, "remove the filter", "take %s: the program of filter %s at %s would be lost", r.Device, f.Handle, f.Parent)
		}
		program, err := ebpf.NewProgramFromID(ebpf.ProgramID(id))
		if err == nil {
			err = os.MkdirAll(r.Pins, 0o700)
		}
		if err == nil {
			if err = program.Pin(r.pin(id)); errors.Is(err, os.ErrExist) {
				err = nil
			}
			_ = program.Close()
		}
		if err != nil {
			return fmt.Errorf("keep program %d of a filter of %s: %w", id, r.Device, err)
		}
	}
	return nil
}

func (r Record) pin(id uint32) string {
	return filepath.Join(r.Pins, fmt.Sprintf("kept-%d-%d-%d", r.Namespace, r.Index, id))
}

// Replace puts a tree of Weir's own in place, whose root has RootHandle. It is rehearsed first, so
// that a tree that the kernel does not take changes nothing. It can be repeated, also by another
// process, and with another tree.
func (r Record) Replace(ns *netns.Namespace, t Tree) error { return r.replace(ns, t, func() {}) }

func (r Record) replace(ns *netns.Namespace, t Tree, step func()) error {
	if root, _ := t.root(); root.Handle != RootHandle {
		return fault.New(fault.Usage, "give it device.RootHandle", "replace qdiscs of %s: the root has handle %s", r.Device, root.Handle)
	}
	return r.work("replace", ns, step, func(b *builder) error {
		s, err := shapeOf(ns, r.Index)
		if err != nil {
			return err
		}
		if t, err = rehearse(s, t); err != nil {
			return err
		}
		return b.put(t)
	})
}

// Restore brings the former tree back, reads it back, and gives the device up. It can be repeated,
// and begins from whatever state a crash has left. A device that is gone took its tree with it: the
// error is [ErrGone].
func (r Record) Restore(ns *netns.Namespace) error { return r.restore(ns, func() {}) }

func (r Record) restore(ns *netns.Namespace, step func()) error {
	err := r.work("restore", ns, step, func(b *builder) error {
		if err := b.put(r.Before); err != nil {
			return err
		}
		return b.putHook(r.Before.Hook)
	})
	if err != nil && !errors.Is(err, ErrGone) {
		return err
	}
	for _, f := range r.Before.Filters {
		if id := f.BPF().ID; id != 0 {
			if removed := os.Remove(r.pin(id)); removed != nil && !errors.Is(removed, os.ErrNotExist) {
				return fmt.Errorf("restore qdiscs of %s: %w", r.Device, removed)
			}
		}
	}
	return err
}

// work finds the device of the record, sees that its tree is not somebody else's, and changes it.
func (r Record) work(what string, ns *netns.Namespace, step func(), change func(*builder) error) error {
	fail := func(err error) error { return fmt.Errorf("%s qdiscs of %s: %w", what, r.Device, err) }
	boot, err := bootID()
	if err != nil {
		return fail(err)
	}
	namespace, err := inode(ns)
	if err != nil {
		return fail(err)
	}
	if boot != r.Boot || namespace != r.Namespace {
		return fail(fmt.Errorf("it was in another namespace or before a reboot: %w", ErrGone))
	}
	conn, err := find(ns, r.Device, r.Index)
	if err != nil {
		return fail(err)
	}
	defer conn.Close()
	have, err := snapshot(conn, r.Index)
	if err != nil {
		return fail(err)
	}
	is, _ := have.root()
	was, _ := r.Before.root()
	if is.Handle != 0 && is.Handle != RootHandle && (is.Handle != was.Handle || is.Kind != was.Kind) {
		return fail(fault.New(fault.Failed, fmt.Sprintf("tc qdisc del dev %s root, if nobody needs it", r.Device),
			"somebody else has put %s %s there meanwhile", is.Kind, is.Handle))
	}
	if err := change(&builder{conn: conn, index: r.Index, step: step}); err != nil {
		return fail(err)
	}
	return nil
}

// putHook brings clsact or ingress and its filters back where they are missing; what is there now
// stays.
func (b *builder) putHook(want []tc.Raw) error {
	if len(want) == 0 {
		return nil
	}
	have, err := snapshot(b.conn, b.index)
	if err != nil || len(have.Hook) > 0 {
		return err
	}
	if err := b.change(tc.QdiscMessage, tc.Create, want[0]); err != nil {
		return err
	}
	return b.putFilters(want[1:], nil)
}
