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

// RootHandle, 77e1:, is the handle of the root of every tree of Weir. It identifies the tree to all
// processes and to users of tc.
const RootHandle tc.Handle = 0x77e1 << 16

// Record describes the former tree of a device. The caller stores it before any change ([Store]),
// so that any process can restore the tree after a crash.
type Record struct {
	Owner     string `json:"owner"` // the module
	Device    string `json:"device"`
	Index     int    `json:"index"`
	Namespace uint64 `json:"namespace"` // its inode
	Boot      string `json:"boot"`
	Before    Tree   `json:"before"`
	Pins      string `json:"pins,omitempty"` // folder with the programs of the former filters
}

// Take returns the record of a device's tree for an owner and changes nothing. It rejects trees of
// Weir and trees that could not be restored. It pins the programs of the tree's filters in pins, a
// folder of a BPF file system; "" rejects trees with such filters. If two owners take a device
// before either replaces its tree, the later Replace wins: core admits one module at a time
// (module.QdiscOwner).
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
		return Record{}, fault.New(fault.Failed, "release it first; the journal of its owner can restore it",
			"take %s: it has a tree of Weir's already (%s %s)", dev, root.Kind, root.Handle)
	}
	if err := Restorable(ns, dev, before); err != nil {
		return Record{}, err
	}
	return r, r.keep()
}

// Name returns a record that only identifies the device in its namespace.
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

// Here reports whether the record is of this boot and of a device in the calling thread's network
// namespace.
func (r Record) Here() bool {
	boot, err := bootID()
	if err != nil || boot != r.Boot {
		return false
	}
	namespace, err := inode(nil)
	return err == nil && namespace == r.Namespace
}

// ours reports whether a tree is one of Weir.
func (t Tree) ours() bool {
	root, _ := t.root()
	return root.Handle == RootHandle
}

// CanTake returns why a device's tree cannot be replaced and restored, or nil. Its module can give
// up one of Weir.
func CanTake(ns *netns.Namespace, dev string) error {
	tree, err := Snapshot(ns, dev)
	if err != nil || tree.ours() {
		return err
	}
	return Restorable(ns, dev, tree)
}

// Restorable returns which part of a device's tree cannot be restored exactly, and why: a kind with
// an incomplete dump, filters with actions, or a difference after a rehearsal. It ignores the hook,
// which is never replaced.
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

// Replace sets up a tree of Weir with RootHandle. It rehearses the tree first, so that a rejected
// tree changes nothing. It can be repeated, by other processes and with other trees.
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

// Restore restores the former tree, verifies it, and gives up the device. It can be repeated after
// a crash at any point. If the device is gone, the error is [ErrGone].
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

// work finds the device of the record, checks that its tree was not replaced by another owner, and
// changes it.
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
	if other := r.usurper(have); other != "" {
		return fail(fault.New(fault.Failed, fmt.Sprintf("tc qdisc del dev %s root, if nobody needs it", r.Device),
			"somebody else has put %s there meanwhile", other))
	}
	if err := change(&builder{conn: conn, index: r.Index, step: step}); err != nil {
		return fail(err)
	}
	return nil
}

// usurper returns the root qdisc of a tree that is neither Weir's nor the former one, as
// "cake 8001:", or "".
func (r Record) usurper(have Tree) string {
	is, _ := have.root()
	was, _ := r.Before.root()
	if is.Handle == 0 || is.Handle == RootHandle || is.Handle == was.Handle && is.Kind == was.Kind {
		return ""
	}
	return fmt.Sprintf("%s %s", is.Kind, is.Handle)
}

// Usurper returns the root qdisc that somebody else has put in place of Weir's, as "cake 8001:", or
// "". A device that is gone has none.
func (r Record) Usurper(ns *netns.Namespace) (string, error) {
	conn, err := find(ns, r.Device, r.Index)
	if errors.Is(err, ErrGone) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	defer conn.Close()
	have, err := snapshot(conn, r.Index)
	if err != nil {
		return "", fmt.Errorf("read qdiscs of %s: %w", r.Device, err)
	}
	return r.usurper(have), nil
}

// putHook restores clsact or ingress with its filters if missing, and keeps existing ones.
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
