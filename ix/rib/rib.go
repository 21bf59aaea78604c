// SPDX-License-Identifier: Apache-2.0

// Package rib holds the paths of many sponsor ports to the prefixes of both address families in
// little memory.
//
// A [Table] has a row per prefix and a column per port. A column holds the number of an attribute
// set per row, 0 for no path, in chunks of 4,096 rows; a chunk with few paths is a sorted list.
// Attribute sets are interned: equal bytes are stored once, with a reference count.
//
// The number of an attribute set ([AttrID]) is valid while a path refers to it, then it is reused.
// The bytes of [Table.Attrs] never change, also after their number is reused.
package rib

import (
	"errors"
	"fmt"
	"net/netip"
)

// AttrID is the number of an attribute set in a [Table]. 0 means no path.
type AttrID uint32

// PortID is the index of a sponsor port, in an order of the caller's choice. A port that offers
// several paths per prefix (additional paths) takes a PortID for each.
type PortID uint16

// Path is a port's path to a prefix.
type Path struct {
	Port  PortID
	Attrs AttrID
}

// maxAttrs is the maximum size of an attribute set: that of an UPDATE's path attributes.
const maxAttrs = 65535

// ErrFull is the error of a table that has no numbers left: 2^32-1 prefixes or attribute sets, or
// 4 GiB of attribute sets.
var ErrFull = errors.New("the routing table is full")

// Table is a routing table. Use [New]. Readers may run at the same time; a writer ([Table.Set],
// [Table.Withdraw], [Table.Clear]) excludes readers and other writers. A Table must not be copied.
type Table struct {
	rows    rows
	columns []column
	sets    sets
	order   order
	paths   int

	last    key // of the previous Set: tables come prefix by prefix
	lastRow uint32
	hasLast bool
}

// New returns an empty table for ports 0 to ports-1. It panics if ports is not in 0 to 65,536.
func New(ports int) *Table {
	if ports < 0 || ports > 1<<16 {
		panic(fmt.Sprintf("rib: %d ports", ports))
	}
	return &Table{rows: newRows(), sets: newSets(), columns: make([]column, ports)}
}

// Ports returns the number of ports.
func (t *Table) Ports() int { return len(t.columns) }

// Set sets the path of a port to a prefix and replaces its previous one. attrs is copied. The bits
// of p beyond its length are ignored. It returns an error if the port or the prefix is invalid or
// attrs exceeds 65,535 bytes, and [ErrFull].
func (t *Table) Set(p netip.Prefix, port PortID, attrs []byte) error {
	k, ok := keyOf(p)
	if !ok {
		return fmt.Errorf("set a path: invalid prefix %v", p)
	}
	if int(port) >= len(t.columns) {
		return fmt.Errorf("set a path: port %d of %d", port, len(t.columns))
	}
	if len(attrs) > maxAttrs {
		return fmt.Errorf("set a path: attributes of %d bytes exceed %d", len(attrs), maxAttrs)
	}
	id, err := t.sets.intern(attrs)
	if err != nil {
		return err
	}
	row := t.lastRow
	if !t.hasLast || k != t.last {
		var added bool
		if row, added, err = t.rows.add(k); err != nil {
			t.sets.release(id)
			return err
		}
		if added {
			t.order.invalidate()
		}
		t.last, t.lastRow, t.hasLast = k, row, true
	}
	if old := t.columns[port].set(row, id); old != 0 {
		t.sets.release(old)
		return nil
	}
	t.paths++
	t.rows.addPath(row)
	return nil
}

// Withdraw removes the path of a port to a prefix. It returns false if there is none.
func (t *Table) Withdraw(p netip.Prefix, port PortID) bool {
	row, ok := t.find(p)
	if !ok || int(port) >= len(t.columns) {
		return false
	}
	old := t.columns[port].clear(row)
	if old == 0 {
		return false
	}
	t.dropped(row, old)
	return true
}

// dropped accounts for a path that has left its column.
func (t *Table) dropped(row uint32, old AttrID) {
	t.sets.release(old)
	t.paths--
	if t.rows.dropPath(row) == 0 {
		t.rows.remove(row)
		t.order.invalidate()
		t.hasLast = false
	}
}

// Clear removes all paths of a port and returns their number.
func (t *Table) Clear(port PortID) int {
	if int(port) >= len(t.columns) {
		return 0
	}
	n := 0
	t.columns[port].each(func(row uint32, id AttrID) {
		t.dropped(row, id)
		n++
	})
	t.columns[port] = column{}
	return n
}

// PortPaths returns the number of paths of a port.
func (t *Table) PortPaths(port PortID) int {
	if int(port) >= len(t.columns) {
		return 0
	}
	return t.columns[port].paths
}

func (t *Table) find(p netip.Prefix) (row uint32, ok bool) {
	k, ok := keyOf(p)
	if !ok {
		return 0, false
	}
	return t.rows.find(k)
}

// Path returns the path of a port to a prefix, 0 for none.
func (t *Table) Path(p netip.Prefix, port PortID) AttrID {
	row, ok := t.find(p)
	if !ok || int(port) >= len(t.columns) {
		return 0
	}
	return t.columns[port].get(row)
}

// Paths appends the paths to a prefix to dst, ordered by port.
func (t *Table) Paths(p netip.Prefix, dst []Path) []Path {
	row, ok := t.find(p)
	if !ok {
		return dst
	}
	return t.appendPaths(dst, row)
}

func (t *Table) appendPaths(dst []Path, row uint32) []Path {
	for port := range t.columns {
		if id := t.columns[port].get(row); id != 0 {
			dst = append(dst, Path{PortID(port), id})
		}
	}
	return dst
}

// Attrs returns the bytes of an attribute set, nil for 0 and for a number never given out. The
// caller must not change them. They stay valid as long as they are referenced.
func (t *Table) Attrs(id AttrID) []byte { return t.sets.get(id) }

// OnNewSet makes the table call f for each attribute set that it stores under a new or reused
// number, so that a caller can drop values cached by number.
func (t *Table) OnNewSet(f func(AttrID)) { t.sets.fresh = f }

// MaxAttrID returns an upper bound of the numbers in use, for slices indexed by AttrID.
func (t *Table) MaxAttrID() AttrID { return t.sets.maxID() }

// Stats are the sizes of a [Table].
type Stats struct {
	Prefixes      int
	Paths         int
	AttributeSets int
	Bytes         int64 // memory of the table, including reserves
}

// Stats returns the sizes of the table.
func (t *Table) Stats() Stats {
	s := Stats{Prefixes: t.rows.count(), Paths: t.paths, AttributeSets: t.sets.count()}
	s.Bytes = t.rows.bytes() + t.sets.bytes() + t.order.bytes()
	for i := range t.columns {
		s.Bytes += t.columns[i].bytes()
	}
	return s
}

// Grow adds ports up to a number of them, at most 65,536. It excludes readers and writers.
func (t *Table) Grow(ports int) {
	if ports > 1<<16 {
		panic(fmt.Sprintf("rib: %d ports", ports))
	}
	for len(t.columns) < ports {
		t.columns = append(t.columns, column{})
	}
}
