// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"errors"
	"fmt"
	"io"
	"math"
	"net/netip"
	"os"
	"slices"
	"strings"

	"weir/internal/fault"
	"weir/internal/infile"
	"weir/ix/choose"
	"weir/ix/config"
	"weir/ix/rib"
	"weir/ix/wire"
)

// Table holds the paths of an exchange, each at the port of its next hop.
//
// A column of the routing table is a source: a peer of the file and a path identifier. So several
// paths of one port to a prefix stay apart.
type Table struct {
	RIB      *rib.Table
	Unplaced Unplaced
	Notes    []string // faults of files that were read in part

	hops    map[netip.Addr]int   // ports by next hop
	numbers map[netip.Addr]uint8 // of a next hop among those of its port
	sources map[source]rib.PortID
	facts   []choose.Path // by AttrID
}

// source identifies the paths of one session of the route server.
type source struct {
	peer netip.Addr
	as   uint32
	id   uint32
}

// Unplaced counts the paths that belong to no port or reach no member, by reason.
type Unplaced struct {
	UnknownNextHop int                `json:"unknown_next_hop"` // no port has the next hop
	NoNextHop      int                `json:"no_next_hop"`
	NoExport       int                `json:"no_export"` // NO_EXPORT, NO_ADVERTISE or NO_EXPORT_SUBCONFED
	Malformed      int                `json:"malformed"` // attributes with a fault
	NextHops       map[netip.Addr]int `json:"-"`         // unknown ones and their paths
	First          error              `json:"-"`         // fault of the first malformed path
}

// Sum returns the number of these paths.
func (u *Unplaced) Sum() int { return u.UnknownNextHop + u.NoNextHop + u.NoExport + u.Malformed }

// Common returns the unknown next hops with most paths, at most n.
func (u *Unplaced) Common(n int) (all []netip.Addr) {
	for a := range u.NextHops {
		all = append(all, a)
	}
	slices.SortFunc(all, func(a, b netip.Addr) int {
		if u.NextHops[a] != u.NextHops[b] {
			return u.NextHops[b] - u.NextHops[a]
		}
		return a.Compare(b)
	})
	return all[:min(n, len(all))]
}

// maxNextHops bounds the counted next hops: a random file has millions.
const maxNextHops = 10_000

var kind = infile.Kind{What: "routing table", Name: "name an MRT file, as written by BIRD's protocol mrt or by a route collector"}

// Load reads MRT files in order. With partial, the paths before a fault of a file are used and
// [Table.Notes] has the fault; otherwise a fault is an error of status Usage.
func Load(e *config.Exchange, files []string, partial bool) (*Table, error) {
	t := &Table{RIB: rib.New(0), hops: e.NextHops(), sources: map[source]rib.PortID{}, Unplaced: Unplaced{NextHops: map[netip.Addr]int{}}}
	t.numbers = e.HopNumbers()
	for _, name := range files {
		if err := t.file(name, partial); err != nil {
			return nil, err
		}
	}
	t.learn()
	return t, nil
}

func (t *Table) file(name string, partial bool) error {
	file, err := kind.Open(name)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	if err := t.read(file, partial); err != nil {
		var fail *wire.Error
		if errors.As(err, &fail) {
			try := "name an MRT file"
			switch {
			case errors.Is(err, wire.ErrRatio):
				try = "if you trust the file, decompress it and name the decompressed file"
			case fail.Records > 0:
				try = "read the file again, or use the paths before the fault by --partial"
			}
			return fault.New(fault.Usage, try, "%s: %w", name, err)
		}
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// read adds the routes of one MRT stream.
func (t *Table) read(from io.Reader, partial bool) error {
	r, err := wire.NewReader(from, wire.Options{Partial: partial})
	if err != nil {
		return err
	}
	for route, err := range r.All {
		if err != nil {
			return err
		}
		if err := t.add(r, route); err != nil {
			return err
		}
	}
	if err := r.Fault(); err != nil {
		name := "a stream"
		if file, is := from.(*os.File); is {
			name = file.Name()
		}
		t.Notes = append(t.Notes, fmt.Sprintf("%s is used in part: %v", name, err))
	}
	n, first := r.Malformed()
	if t.Unplaced.Malformed += n; t.Unplaced.First == nil {
		t.Unplaced.First = first
	}
	return nil
}

// add sets or withdraws one path.
func (t *Table) add(r *wire.Reader, route *wire.Route) error {
	peer := r.Peers()[route.Peer]
	from := source{peer.Addr, peer.AS, route.PathID}
	column, known := t.sources[from]
	if route.Withdrawn {
		if known {
			t.RIB.Withdraw(route.Prefix, column)
		}
		return nil
	}
	hop := route.View.NextHop
	if _, placed := t.hops[hop]; !placed || route.View.Communities.Internal() {
		if known {
			t.RIB.Withdraw(route.Prefix, column)
		}
		if placed {
			t.Unplaced.NoExport++
		} else {
			t.unplaced(hop)
		}
		return nil
	}
	if !known {
		if t.RIB.Ports() == 1<<16 {
			return fault.New(fault.Usage, "", "the file has more than 65536 peers and path identifiers with paths of known ports")
		}
		column = rib.PortID(t.RIB.Ports())
		t.RIB.Grow(t.RIB.Ports() + 1)
		t.sources[from] = column
	}
	return t.RIB.Set(route.Prefix, column, route.Attrs)
}

func (t *Table) unplaced(hop netip.Addr) {
	if !hop.IsValid() {
		t.Unplaced.NoNextHop++
		return
	}
	t.Unplaced.UnknownNextHop++
	if _, known := t.Unplaced.NextHops[hop]; known || len(t.Unplaced.NextHops) < maxNextHops {
		t.Unplaced.NextHops[hop]++
	}
}

// learn decodes every attribute set once.
func (t *Table) learn() {
	t.facts = make([]choose.Path, int(t.RIB.MaxAttrID())+1)
	for id := range t.facts {
		attrs := wire.Attrs(t.RIB.Attrs(rib.AttrID(id)))
		if attrs == nil {
			continue
		}
		view, err := attrs.View()
		if err != nil {
			continue // freed: a stored set is sound
		}
		f := choose.Path{Port: uint16(t.hops[view.NextHop]), Length: uint16(min(view.ASPath.Len(), math.MaxUint16)), Second: view.ASPath.Second(),
			LocalPref: 100, Hop: t.numbers[view.NextHop], Shutdown: view.Communities.Has(wire.GracefulShutdown), Tie: tie(attrs)}
		if view.HasLocalPref {
			f.LocalPref = view.LocalPref
		}
		t.facts[id] = f
	}
}

// tie is the FNV-1a hash of an attribute set. It is equal on all servers, unlike maphash.
func tie(attrs []byte) uint64 {
	h := uint64(14695981039346656037)
	for _, b := range attrs {
		h = (h ^ uint64(b)) * 1099511628211
	}
	return h
}

// paths appends the paths of a row to into.
func (t *Table) paths(row []rib.Path, into []choose.Path) []choose.Path {
	for _, p := range row {
		into = append(into, t.facts[p.Attrs])
	}
	return into
}

// Describe names the unplaced paths, "" for none.
func (u *Unplaced) Describe() string {
	var parts []string
	if u.UnknownNextHop > 0 {
		var hops []string
		for _, a := range u.Common(5) {
			hops = append(hops, fmt.Sprintf("%s (%d)", a, u.NextHops[a]))
		}
		more := ""
		if len(u.NextHops) > len(hops) {
			more = fmt.Sprintf(" and %d more", len(u.NextHops)-len(hops))
		}
		parts = append(parts, fmt.Sprintf("%d paths with a next hop that is no port's address: %s%s", u.UnknownNextHop, strings.Join(hops, ", "), more))
	}
	if u.NoNextHop > 0 {
		parts = append(parts, fmt.Sprintf("%d paths without next hop", u.NoNextHop))
	}
	if u.NoExport > 0 {
		parts = append(parts, fmt.Sprintf("%d paths with NO_EXPORT or NO_ADVERTISE", u.NoExport))
	}
	if u.Malformed > 0 {
		parts = append(parts, fmt.Sprintf("%d malformed paths, the first: %v", u.Malformed, u.First))
	}
	return strings.Join(parts, "; ")
}
