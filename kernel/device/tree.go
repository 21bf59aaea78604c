// SPDX-License-Identifier: Apache-2.0

package device

import (
	"bytes"
	"cmp"
	"fmt"
	"reflect"
	"slices"

	"weir/kernel/netns"
	"weir/kernel/tc"
)

// Tree holds the qdiscs, classes and filters of a device in the form of create requests without
// counters, so that trees can be compared and stored as JSON. The zero Tree is that of a device
// without a qdisc.
type Tree struct {
	Qdiscs  []tc.Raw `json:"qdiscs"`            // the root first, parents before children; handle 0: chosen by the kernel
	Classes []tc.Raw `json:"classes,omitempty"` // created one by one; parents before children
	Filters []tc.Raw `json:"filters,omitempty"` // of these qdiscs and classes
	Hook    []tc.Raw `json:"hook,omitempty"`    // clsact or ingress, and its filters
}

// Snapshot reads a device's tree.
func Snapshot(ns *netns.Namespace, dev string) (Tree, error) {
	conn, index, err := open(ns, dev)
	if err != nil {
		return Tree{}, err
	}
	defer conn.Close()
	t, err := snapshot(conn, index)
	if err != nil {
		return Tree{}, fmt.Errorf("read qdiscs of %s: %w", dev, err)
	}
	return t, nil
}

func snapshot(conn *tc.Conn, index int) (t Tree, err error) {
	all, err := conn.Dump(tc.QdiscMessage, index, 0)
	if err != nil {
		return Tree{}, err
	}
	for _, q := range all {
		q = q.Creatable(tc.QdiscMessage)
		if q.Parent == tc.Clsact {
			t.Hook = append(t.Hook, q)
		} else {
			t.Qdiscs = append(t.Qdiscs, q)
		}
	}
	t.Qdiscs = sorted(t.Qdiscs)
	classes, err := conn.Dump(tc.ClassMessage, index, 0)
	if err != nil {
		return Tree{}, err
	}
	for _, c := range classes {
		if tc.HasClasses(c.Kind) && c.Handle&0xffff != 0 { // hfsc lists its root as a class
			t.Classes = append(t.Classes, c.Creatable(tc.ClassMessage))
		}
	}
	t.Classes = sorted(t.Classes)
	return t, t.readFilters(conn, index)
}

func (t *Tree) readFilters(conn *tc.Conn, index int) (err error) {
	for _, parent := range slices.Concat(t.Qdiscs, t.Classes) {
		if parent.Handle == 0 {
			continue
		}
		if t.Filters, err = appendFilters(t.Filters, conn, index, parent.Handle); err != nil {
			return err
		}
	}
	if len(t.Hook) == 0 {
		return nil
	}
	parents := []tc.Handle{tc.ClsactIngress, tc.ClsactEgress}
	if t.Hook[0].Kind == "ingress" {
		parents = []tc.Handle{t.Hook[0].Handle}
	}
	for _, parent := range parents {
		if t.Hook, err = appendFilters(t.Hook, conn, index, parent); err != nil {
			return err
		}
	}
	return nil
}

// appendFilters keeps the kernel's order, except that tables precede the filters that refer to
// them.
func appendFilters(list []tc.Raw, conn *tc.Conn, index int, parent tc.Handle) ([]tc.Raw, error) {
	all, err := conn.Dump(tc.FilterMessage, index, parent)
	if err != nil {
		return nil, err
	}
	for i := range all {
		all[i] = all[i].Creatable(tc.FilterMessage)
	}
	slices.SortStableFunc(all, func(a, b tc.Raw) int {
		return cmp.Or(cmp.Compare(a.Chain, b.Chain), cmp.Compare(a.Info, b.Info), cmp.Compare(order(a), order(b)), cmp.Compare(a.Handle, b.Handle))
	})
	return append(list, all...), nil
}

func order(f tc.Raw) int {
	if table, _ := f.HashTable(); table {
		return 0
	}
	return 1
}

// sorted puts parents before children, otherwise by handle. The parent of a class or qdisc is a
// qdisc, or a class of the qdisc with the same major number.
func sorted(list []tc.Raw) []tc.Raw {
	slices.SortFunc(list, func(a, b tc.Raw) int { return cmp.Or(cmp.Compare(a.Parent, b.Parent), cmp.Compare(a.Handle, b.Handle)) })
	var done []tc.Raw
	for len(list) > 0 {
		var later []tc.Raw
		for _, x := range list {
			waits := slices.ContainsFunc(list, func(p tc.Raw) bool {
				return p.Handle != 0 && p.Handle != x.Handle && (p.Handle == x.Parent || p.Handle == x.Parent&^0xffff && p.Handle&0xffff == 0)
			})
			if x.Parent != tc.Root && waits {
				later = append(later, x)
			} else {
				done = append(done, x)
			}
		}
		if len(later) == len(list) {
			return append(done, later...)
		}
		list = later
	}
	return done
}

// root is the outermost qdisc; a device that is down and was never up has none.
func (t Tree) root() (tc.Raw, bool) {
	for _, q := range t.Qdiscs {
		if q.Parent == tc.Root {
			return q, true
		}
	}
	return tc.Raw{}, false
}

// IsWeirs reports whether the root has RootHandle.
func (t Tree) IsWeirs() bool {
	root, ok := t.root()
	return ok && root.Handle == RootHandle
}

// isDefault reports whether the kernel chose the root.
func (t Tree) isDefault() bool {
	root, ok := t.root()
	return !ok || root.Handle == 0
}

// made omits default qdiscs below the root, and the hook.
func (t Tree) made() Tree {
	t.Hook = nil
	t.Qdiscs = slices.DeleteFunc(slices.Clone(t.Qdiscs), func(q tc.Raw) bool { return q.Parent != tc.Root && q.Handle == 0 })
	return t
}

// differences describes the differences of two trees; "" if they are equal.
func differences(want, have Tree) string {
	for _, part := range []struct {
		name       string
		want, have []tc.Raw
	}{
		{"qdisc", want.Qdiscs, have.Qdiscs}, {"class", want.Classes, have.Classes},
		{"filter", want.Filters, have.Filters}, {"hook", want.Hook, have.Hook},
	} {
		for _, w := range part.want {
			i := slices.IndexFunc(part.have, func(h tc.Raw) bool { return same(w, h) })
			if i < 0 {
				return fmt.Sprintf("%s %s %s at %s is missing", part.name, w.Kind, w.Handle, w.Parent)
			}
			if !equal(w, part.have[i]) {
				return fmt.Sprintf("%s %s %s at %s differs: want %x, have %x", part.name, w.Kind, w.Handle, w.Parent, w.Options, part.have[i].Options)
			}
		}
		for _, h := range part.have {
			if !slices.ContainsFunc(part.want, func(w tc.Raw) bool { return same(w, h) }) {
				return fmt.Sprintf("%s %s %s at %s is too many", part.name, h.Kind, h.Handle, h.Parent)
			}
		}
	}
	return ""
}

// same reports whether two descriptions are of the same object.
func same(a, b tc.Raw) bool {
	return a.Kind == b.Kind && a.Handle == b.Handle && a.Parent == b.Parent && a.Info == b.Info && a.Chain == b.Chain
}

func equal(a, b tc.Raw) bool {
	if len(a.Options) == 0 && len(b.Options) == 0 {
		a.Options, b.Options = nil, nil
	}
	return bytes.Equal(a.Options, b.Options) && reflect.DeepEqual(a, b)
}
