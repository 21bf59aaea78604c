// SPDX-License-Identifier: Apache-2.0

package device

import (
	"errors"
	"fmt"
	"slices"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"weir/kernel/tc"
)

// builder changes the tree of a device in repeatable steps, from any state after a crash.
type builder struct {
	conn  *tc.Conn
	index int
	step  func() // before each change, for tests
}

// put builds the tree and reads it back. It keeps matching objects, and rebuilds from scratch if
// the result differs.
func (b *builder) put(want Tree) error {
	err := b.approach(want)
	if err == nil {
		if err = b.verify(want); err == nil {
			return nil
		}
	}
	if want.isDefault() {
		return err
	}
	// The kernel would confuse it with the qdisc of the same handle.
	if err := b.removeRoot(); err != nil {
		return err
	}
	if err := b.approach(want); err != nil {
		return err
	}
	return b.verify(want)
}

func (b *builder) verify(want Tree) error {
	have, err := snapshot(b.conn, b.index)
	if err != nil {
		return err
	}
	if _, up := have.root(); !up && want.isDefault() {
		return nil // the device is down: the kernel chooses at the next up
	}
	if d := differences(want.made(), have.made()); d != "" {
		return fmt.Errorf("differs from the request: %s", d)
	}
	return nil
}

func (b *builder) change(sort tc.Message, flags int, raw tc.Raw) error {
	b.step()
	return b.conn.Put(sort, flags, b.index, raw)
}

func (b *builder) remove(sort tc.Message, raw tc.Raw) error {
	b.step()
	return b.conn.Remove(sort, b.index, raw)
}

// removeRoot restores the kernel's default, which cannot be removed.
func (b *builder) removeRoot() error {
	have, err := snapshot(b.conn, b.index)
	if err != nil || have.isDefault() {
		return err
	}
	root, _ := have.root()
	return b.remove(tc.QdiscMessage, tc.Raw{Kind: root.Kind, Handle: root.Handle, Parent: tc.Root})
}

func (b *builder) approach(want Tree) error {
	if want.isDefault() {
		return b.standard(want)
	}
	have, err := b.build(want)
	if err != nil {
		return err
	}
	return b.prune(want, have)
}

// build adds missing objects and returns the former objects below the root.
func (b *builder) build(want Tree) (Tree, error) {
	if err := b.putRoot(want); err != nil {
		return Tree{}, err
	}
	have, err := snapshot(b.conn, b.index)
	if err != nil {
		return Tree{}, err
	}
	for _, q := range want.made().Qdiscs {
		if q.Parent != tc.Root {
			if err := b.putChild(q, have); err != nil {
				return Tree{}, err
			}
		}
		for _, class := range want.Classes {
			if class.Handle>>16 != q.Handle>>16 || slices.ContainsFunc(have.Classes, func(h tc.Raw) bool { return same(class, h) && equal(class, h) }) {
				continue
			}
			if err := b.change(tc.ClassMessage, tc.Create, class); err != nil {
				return Tree{}, err
			}
		}
	}
	return have, b.putFilters(want.Filters, have.Filters)
}

// standard restores the default qdisc with its former parameters.
func (b *builder) standard(want Tree) error {
	if err := b.removeRoot(); err != nil {
		return err
	}
	have, err := snapshot(b.conn, b.index)
	if err != nil {
		return err
	}
	is, ok := have.root()
	if was, had := want.root(); had && ok && is.Kind == was.Kind && !equal(is, was) {
		return b.change(tc.QdiscMessage, 0, was)
	}
	return nil
}

func (b *builder) putRoot(want Tree) error {
	root, _ := want.root()
	have, err := snapshot(b.conn, b.index)
	if err != nil {
		return err
	}
	is, ok := have.root()
	if ok && same(is, root) {
		if equal(is, root) {
			return nil
		}
		if err := b.change(tc.QdiscMessage, tc.Replace, root); err == nil {
			return nil
		} // not every kind can be changed
	}
	if slices.ContainsFunc(have.Qdiscs, func(q tc.Raw) bool { return q.Handle == root.Handle }) {
		// The kernel would confuse it with the existing qdisc of this handle.
		if err := b.removeRoot(); err != nil {
			return err
		}
	}
	return b.change(tc.QdiscMessage, tc.Create|tc.Replace, root)
}

func (b *builder) putChild(q tc.Raw, have Tree) error {
	i := slices.IndexFunc(have.Qdiscs, func(h tc.Raw) bool { return same(h, q) })
	if i >= 0 && equal(have.Qdiscs[i], q) {
		return nil
	}
	if i < 0 {
		for _, h := range have.Qdiscs { // same handle: the kernel would confuse them
			if h.Handle == q.Handle {
				if err := b.remove(tc.QdiscMessage, h); err != nil && !errors.Is(err, unix.ENOENT) {
					return err
				}
			}
		}
	}
	return b.change(tc.QdiscMessage, tc.Create|tc.Replace, q)
}

func (b *builder) putFilters(want, have []tc.Raw) error {
	for _, f := range want {
		_, root := f.HashTable()
		i := slices.IndexFunc(have, func(h tc.Raw) bool { return same(h, f) })
		if root || i >= 0 && equal(have[i], f) { // the first table is created with its priority
			continue
		}
		if err := b.putFilter(f); err != nil {
			return err
		}
	}
	return nil
}

func (b *builder) putFilter(f tc.Raw) error {
	if id := f.BPF().ID; id != 0 {
		program, err := ebpf.NewProgramFromID(ebpf.ProgramID(id))
		if err != nil {
			return fmt.Errorf("find program %d of a filter: %w", id, err)
		}
		defer func() { _ = program.Close() }()
		f = f.WithProgram(program.FD())
	}
	return b.change(tc.FilterMessage, tc.Create, f)
}

// prune removes excess objects: filters, then qdiscs, then classes, children first.
func (b *builder) prune(want, have Tree) error {
	for _, f := range have.Filters {
		if slices.ContainsFunc(want.Filters, func(w tc.Raw) bool { return same(w, f) }) {
			continue
		}
		kept := slices.ContainsFunc(want.Filters, func(w tc.Raw) bool {
			return w.Parent == f.Parent && w.Chain == f.Chain && w.Info == f.Info
		})
		if !kept {
			f.Handle = 0 // the whole priority, with tables that refer to each other
		}
		if err := b.remove(tc.FilterMessage, f); err != nil && !errors.Is(err, unix.ENOENT) {
			return err
		}
	}
	now, err := snapshot(b.conn, b.index)
	if err != nil {
		return err
	}
	for _, part := range []struct {
		sort       tc.Message
		want, have []tc.Raw
	}{{tc.QdiscMessage, want.Qdiscs, now.made().Qdiscs}, {tc.ClassMessage, want.Classes, now.Classes}} {
		for _, x := range slices.Backward(part.have) {
			if slices.ContainsFunc(part.want, func(w tc.Raw) bool { return same(w, x) }) {
				continue
			}
			if err := b.remove(part.sort, x); err != nil && !errors.Is(err, unix.ENOENT) {
				return err
			}
		}
	}
	return nil
}
