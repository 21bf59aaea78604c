// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"cmp"
	"slices"
)

// solver searches for the units that are worth their prefixes.
type solver struct {
	all    []point
	units  []unit
	weight []int64
	worth  [][2]int64 // of the points below, without and with its unit chosen
	pick   [][2]bool  // whether a point's unit is chosen, by whether the one above is
}

// scale is the worth of a packet, so that prices can be below one packet.
const scale = 1 << 10

// value returns the worth of a choice, including hysteresis.
func (c *solver) value(x []bool) (sum int64) {
	for i, in := range x {
		if in && c.units[i].able {
			sum += c.weight[i]
		}
	}
	return sum
}

// best finds the lowest price of a prefix that keeps the choice within the budget.
func (c *solver) best(budget int) []bool {
	low, high := int64(-1), int64(1)
	for _, w := range c.weight {
		high += w * scale
	}
	x := c.at(high)
	for high-low > 1 {
		middle := low + (high-low)/2
		if y := c.at(middle); rules(c.all, y) <= budget {
			high, x = middle, y
		} else {
			low = middle
		}
	}
	return x
}

// at returns the choice with the greatest worth at a price per prefix, from the longest prefixes
// up: the worth of a point depends on whether the unit above is chosen.
func (c *solver) at(price int64) []bool {
	if c.worth == nil {
		c.worth, c.pick = make([][2]int64, len(c.all)), make([][2]bool, len(c.all))
	}
	worth, pick := c.worth, c.pick
	clear(worth)
	for i := len(c.all) - 1; i >= 0; i-- {
		p := &c.all[i]
		for above := range 2 {
			var value [2]int64
			for own := range 2 {
				value[own] = worth[i][own]
				if c.differs(p, own == 1, above == 1) {
					value[own] -= price
				}
				if own == 1 && p.begins && c.units[p.unit].able {
					value[own] += c.weight[p.unit] * scale
				}
			}
			own := above
			if p.begins {
				own = 0
				if c.units[p.unit].able && value[1] >= value[0] {
					own = 1
				}
			}
			pick[i][above] = own == 1
			if p.above >= 0 {
				worth[p.above][above] += value[own]
			}
		}
	}
	x := make([]bool, len(c.units))
	for i := range c.all {
		if p := &c.all[i]; p.begins {
			above := 0
			if p.above >= 0 && x[c.all[p.above].unit] {
				above = 1
			}
			x[p.unit] = pick[i][above]
		}
	}
	return x
}

// differs reports whether a point needs a prefix of the table.
func (c *solver) differs(p *point, own, above bool) bool {
	before, now := CPU, CPU
	if above && p.above >= 0 {
		before = c.all[p.above].fast
	}
	if own {
		now = p.fast
	}
	return before != now
}

// fill chooses more units while they fit, by packets, then by length.
func (c *solver) fill(x []bool, budget int) {
	left := budget - rules(c.all, x)
	if left <= 0 {
		return
	}
	var order []int32
	for i := range c.units {
		if !x[i] && c.units[i].able {
			order = append(order, int32(i))
		}
	}
	slices.SortFunc(order, func(a, b int32) int {
		u, v := &c.units[a], &c.units[b]
		return cmp.Or(cmp.Compare(c.weight[b], c.weight[a]), cmp.Compare(u.to.Bits(), v.to.Bits()), u.to.Addr().Compare(v.to.Addr()))
	})
	for _, i := range order {
		if left <= 0 {
			return
		}
		if more := c.cost(x, i); more <= left {
			x[i], left = true, left-more
		}
	}
}

// cost returns the additional prefixes for one more unit.
func (c *solver) cost(x []bool, i int32) (more int) {
	u := &c.units[i]
	count := func() (n int) {
		for _, at := range append(u.points[:len(u.points):len(u.points)], u.below...) {
			if said(c.all, x, at) != said(c.all, x, c.all[at].above) {
				n++
			}
		}
		return n
	}
	before := count()
	x[i] = true
	more = count() - before
	x[i] = false
	return more
}
