// SPDX-License-Identifier: Apache-2.0

package server

import (
	"math"
	"net/netip"

	"weir/ix/choose"
	"weir/ix/config"
	"weir/ix/rib"
	"weir/ix/wire"
)

// table is the paths of the feed, each at the port of its next hop. A column of the routing table
// is a path identifier of one session with the feed, so that the paths of a new session stand
// beside those of the former one until its End-of-RIB.
type table struct {
	rib     *rib.Table
	hops    map[netip.Addr]int // ports by next hop
	numbers map[netip.Addr]uint8
	facts   []fact       // by AttrID
	spare   []rib.PortID // columns without paths
	row     []rib.Path   // scratch
}

// fact is the decoded form of an attribute set.
type fact struct {
	choose.Path
	known bool
}

// path is one path of a prefix. Its attributes stay valid when the table changes.
type path struct {
	choose.Path
	id    rib.AttrID
	attrs wire.Attrs
}

func newTable(e *config.Exchange) *table {
	t := &table{rib: rib.New(0), hops: e.NextHops(), numbers: e.HopNumbers()}
	t.rib.OnNewSet(func(id rib.AttrID) {
		for int(id) >= len(t.facts) {
			t.facts = append(t.facts, fact{})
		}
		t.facts[id].known = false
	})
	return t
}

// column returns an unused column, false if there is none.
func (t *table) column() (rib.PortID, bool) {
	if n := len(t.spare); n > 0 {
		c := t.spare[n-1]
		t.spare = t.spare[:n-1]
		return c, true
	}
	n := t.rib.Ports()
	if n == 1<<16 {
		return 0, false
	}
	t.rib.Grow(n + 1)
	return rib.PortID(n), true
}

// fact returns the decoded form of a stored attribute set.
func (t *table) fact(id rib.AttrID, attrs wire.Attrs) choose.Path {
	f := &t.facts[id]
	if f.known {
		return f.Path
	}
	view, _ := attrs.View() // a stored set is sound
	f.Path = choose.Path{Port: uint16(t.hops[view.NextHop]), Hop: t.numbers[view.NextHop], Length: uint16(min(view.ASPath.Len(), math.MaxUint16)),
		Second: view.ASPath.Second(), LocalPref: 100, Shutdown: view.Communities.Has(wire.GracefulShutdown), Tie: tie(attrs)}
	if view.HasLocalPref {
		f.LocalPref = view.LocalPref
	}
	f.known = true
	return f.Path
}

// tie is the FNV-1a hash of an attribute set, equal on all servers.
func tie(attrs []byte) uint64 {
	h := uint64(14695981039346656037)
	for _, b := range attrs {
		h = (h ^ uint64(b)) * 1099511628211
	}
	return h
}

// convert appends the paths of a row to dst, equal ones once: a resumed feed sends paths that are
// there already.
func (t *table) convert(row []rib.Path, dst []path) []path {
	start := len(dst)
next:
	for _, p := range row {
		for i := start; i < len(dst); i++ {
			if dst[i].id == p.Attrs {
				continue next
			}
		}
		attrs := wire.Attrs(t.rib.Attrs(p.Attrs))
		dst = append(dst, path{t.fact(p.Attrs, attrs), p.Attrs, attrs})
	}
	return dst
}

// paths appends the paths to a prefix to dst.
func (t *table) paths(p netip.Prefix, dst []path) []path {
	t.row = t.rib.Paths(p, t.row[:0])
	return t.convert(t.row, dst)
}

// rowPaths returns the prefix of a row and appends its paths to dst.
func (t *table) rowPaths(row uint32, dst []path) (netip.Prefix, []path, bool) {
	prefix, all, ok := t.rib.Row(row, t.row[:0])
	t.row = all
	if !ok {
		return prefix, dst, false
	}
	return prefix, t.convert(all, dst), true
}
