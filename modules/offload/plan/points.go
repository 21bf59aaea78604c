// SPDX-License-Identifier: Apache-2.0

package plan

import "net/netip"

// point is a prefix with a possible change of the table.
type point struct {
	above  int32    // the next shorter point; -1 for none
	unit   int32    // of the deciding route
	fast   Decision // of its addresses if that route is selected
	begins bool     // at the route's own prefix
}

// unit is a route or a neighbour, which is selected as a whole.
type unit struct {
	to     netip.Prefix
	node   uint32
	points []int32
	below  []int32 // points of other units right below its own
	was    bool    // selected before
	able   bool    // a fast path can forward some of its addresses
}

// points lists both families, shorter prefixes before the longer ones that they cover.
func (p *Planner) points() (all []point, units []unit) {
	for family := range p.tries {
		t := p.tries[family]
		var walk func(n uint32, k key, depth int, c Carry, above, in int32)
		walk = func(n uint32, k key, depth int, c Carry, above, in int32) {
			node := &t.nodes[n]
			begins := node.begins(c) || depth == 0
			c = c.through(node)
			before := CPU
			if above >= 0 {
				before = all[above].fast
			}
			d := p.forwarded(c, node.host, func() netip.Addr { return t.prefix(k, depth).Addr() })
			if begins {
				in = int32(len(units))
				units = append(units, unit{to: t.prefix(k, depth), node: n, was: node.chosen})
			}
			if begins || d != before {
				at := int32(len(all))
				all = append(all, point{above: above, unit: in, fast: d, begins: begins})
				u := &units[in]
				u.points, u.able = append(u.points, at), u.able || d != CPU
				if begins && above >= 0 {
					up := &units[all[above].unit]
					up.below = append(up.below, at)
				}
				above = at
			}
			for bit, next := range node.child {
				if next != 0 {
					k.set(depth, bit)
					walk(next, k, depth+1, c, above, in)
				}
			}
		}
		walk(1, key{}, 0, start(), -1, -1)
	}
	return all, units
}

// rules returns the number of prefixes of a table with the chosen units x: points that differ from
// the one above.
func rules(all []point, x []bool) (n int) {
	for i := range all {
		if said(all, x, int32(i)) != said(all, x, all[i].above) {
			n++
		}
	}
	return n
}

// said returns the decision of a table at a point; the CPU's above the first.
func said(all []point, x []bool, at int32) Decision {
	if at < 0 || !x[all[at].unit] {
		return CPU
	}
	return all[at].fast
}
