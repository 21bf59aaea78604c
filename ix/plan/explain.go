// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"math"
	"net/netip"
	"strings"

	"weir/internal/fault"
	"weir/ix/choose"
	"weir/ix/config"
	"weir/ix/rib"
	"weir/ix/wire"
)

// Explanation is the document of weir ix explain --format json.
type Explanation struct {
	Format  string       `json:"format"`
	Asked   string       `json:"asked"`
	Prefix  netip.Prefix `json:"prefix"` // of the table: the longest that covers the one asked for
	Member  string       `json:"member,omitempty"`
	Limit   int          `json:"paths"` // sent to the member
	Hashed  netip.Prefix `json:"hash_prefix"`
	Omitted bool         `json:"omitted,omitempty"` // a small member does without it
	List    []Explained  `json:"list"`
}

// Explained is one path and the reason of its position.
type Explained struct {
	Position  int        `json:"position"` // from 1; 0 without consent
	Sent      bool       `json:"sent"`
	Sponsor   string     `json:"sponsor"`
	Port      string     `json:"port"`
	NextHop   netip.Addr `json:"next_hop"`
	ASPath    string     `json:"as_path"`
	Length    int        `json:"length"`    // AS hops
	Second    uint32     `json:"second_as"` // 0 for none
	LocalPref uint32     `json:"local_pref"`
	Place     string     `json:"place,omitempty"`
	Reason    string     `json:"reason"`
}

// explainer holds the parts of one explanation.
type explainer struct {
	ports    []choose.Port
	rules    choose.Rules
	denied   []bool
	rejected []bool
	place    string
	paths    []choose.Path
	order    []int
}

// Explain describes the order of the paths to a prefix or an address. Without a member it is the
// order for one without place and with consent of all sponsors. A prefix that is not in the table
// and an unknown member are faults of status Usage.
func (t *Table) Explain(e *config.Exchange, asked, member string) (*Explanation, error) {
	want, err := ParsePrefix(asked)
	if err != nil {
		return nil, fault.Wrap(err, fault.Usage, "write it as 192.0.2.0/24 or 192.0.2.1")
	}
	at, found := t.Match(want)
	if !found {
		return nil, fault.New(fault.Usage, "name a prefix of the table, or an address in one", "no path of a known port covers %s", asked)
	}
	x := &explainer{ports: e.Ports(), rules: e.Rules()}
	x.denied, x.rejected = make([]bool, len(x.ports)), make([]bool, len(x.ports))
	out := &Explanation{Format: "weir-ix-explain/1", Asked: asked, Prefix: at, Member: member, Limit: e.Choose.Paths, Hashed: at}
	g := &group{paths: e.Choose.Paths}
	if member != "" {
		m, err := e.Member(member)
		if err != nil {
			return nil, err
		}
		out.Limit, x.place = m.Paths, m.Place
		x.denied, x.rejected = e.Denied(m.Name), e.Rejected(m)
		g = &group{choice: e.Chosen(m), paths: m.Paths, small: m.Small}
	}
	ports, err := choose.NewPorts(x.ports)
	if err != nil {
		return nil, err
	}
	sets := t.RIB.Paths(at, nil)
	x.paths = t.paths(sets, nil)
	w := &worker{group: g, selection: ports.Selection(x.rules, g.choice)}
	if g.small {
		out.Hashed = t.root(at)
	}
	x.order = w.selection.Choose(out.Hashed, x.paths, math.MaxInt, nil)
	if g.small {
		out.Omitted = t.omitted(w, at, out.Hashed, x)
	}
	for n, i := range x.order {
		v := t.explained(x, sets, i)
		v.Position, v.Sent, v.Reason = n+1, n < out.Limit && !out.Omitted, x.reason(n)
		out.List = append(out.List, v)
	}
	for i := range x.paths {
		if port := x.paths[i].Port; x.denied[port] || x.rejected[port] {
			v := t.explained(x, sets, i)
			v.Reason = "the member's `without` has the sponsor"
			if x.denied[port] {
				v.Reason = "the sponsor's `only` lacks the member"
			}
			out.List = append(out.List, v)
		}
	}
	return out, nil
}

// root returns the shortest prefix other than a default route that covers p, or p.
func (t *Table) root(p netip.Prefix) netip.Prefix {
	for {
		above, found := t.RIB.Covering(p)
		if !found || above.Bits() == 0 {
			return p
		}
		p = above
	}
}

// omitted reports whether a small member does without a prefix.
func (t *Table) omitted(w *worker, at, root netip.Prefix, x *explainer) bool {
	above, found := t.RIB.Covering(at)
	if !found || above.Bits() == 0 || len(x.order) == 0 {
		return false
	}
	w.got = x.order[:min(len(x.order), w.group.paths)]
	return w.sameAsCover(&row{paths: x.paths, cover: t.paths(t.RIB.Paths(above, nil), nil)}, root)
}

func (t *Table) explained(x *explainer, sets []rib.Path, i int) Explained {
	p := &x.paths[i]
	port := x.ports[p.Port]
	v := Explained{Sponsor: port.Sponsor, Port: port.Name, Place: port.Place, Length: int(p.Length), Second: p.Second, LocalPref: p.LocalPref}
	if view, err := wire.Attrs(t.RIB.Attrs(sets[i].Attrs)).View(); err == nil {
		v.NextHop, v.ASPath = view.NextHop, view.ASPath.String()
	}
	return v
}

// reason describes the steps that put the path in position n of the order.
func (x *explainer) reason(n int) string {
	p, best := &x.paths[x.order[n]], &x.paths[x.order[0]]
	port := x.ports[p.Port]
	var parts []string
	if p.Shutdown {
		parts = append(parts, "GRACEFUL_SHUTDOWN")
	}
	if port.Drained {
		parts = append(parts, "drained")
	}
	if p.LocalPref < best.LocalPref {
		parts = append(parts, fmt.Sprintf("LOCAL_PREF %d is below %d", p.LocalPref, best.LocalPref))
	}
	if x.far(p) && !x.far(best) {
		parts = append(parts, "not in "+x.place)
	}
	shortest := x.shortest(p)
	if longer := int(p.Length - shortest); longer > x.rules.Tolerance {
		parts = append(parts, fmt.Sprintf("%d hops longer than the shortest, tolerance %d", longer, x.rules.Tolerance))
	}
	for k, i := range x.order[:n] {
		if x.ports[x.paths[i].Port].Sponsor == port.Sponsor {
			parts = append(parts, fmt.Sprintf("sponsor repeats position %d", k+1))
			break
		}
	}
	for k, i := range x.order[:n] {
		if x.rules.Diverse && p.Second != 0 && x.paths[i].Second == p.Second {
			parts = append(parts, fmt.Sprintf("second AS repeats position %d", k+1))
			break
		}
	}
	first := n == 0 && x.rules.Prefer == choose.Shortest
	if p.Length == shortest && (first || n == 1 && best.Length > x.shortest(best)) {
		parts = append(parts, "shortest path")
	} else {
		parts = append(parts, "hash")
	}
	return strings.Join(parts, ", ")
}

func (x *explainer) far(p *choose.Path) bool {
	return x.place != "" && x.ports[p.Port].Place != x.place
}

// shortest returns the shortest length among the ordered paths of the same class as p.
func (x *explainer) shortest(p *choose.Path) uint16 {
	last := func(q *choose.Path) bool { return q.Shutdown || x.ports[q.Port].Drained }
	shortest := p.Length
	for _, i := range x.order {
		if q := &x.paths[i]; q.LocalPref == p.LocalPref && x.far(q) == x.far(p) && last(q) == last(p) {
			shortest = min(shortest, q.Length)
		}
	}
	return shortest
}
