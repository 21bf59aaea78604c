// SPDX-License-Identifier: Apache-2.0

package top

import (
	"cmp"
	"slices"
	"strings"
)

// Orders of the live view that are no column's.
const (
	byShare = "busiest"
	byScope = "scope"
)

// topOrder is how the live view sorts, and what it leaves out.
type topOrder struct {
	by       string // byShare, byScope, or a column's title
	reversed bool
	filter   string // what scope, selector, part or state have to contain, in small letters
}

// orders lists what rows can be sorted by: the columns of all rooms, each once.
func orders(all []topModule) []string {
	list := []string{byShare, byScope}
	for _, r := range all {
		for _, c := range topColumns(r.status.Columns) {
			if !c.share && !slices.Contains(list, c.title) {
				list = append(list, c.title)
			}
		}
	}
	return list
}

// next is the order so many steps behind this one; the first where this one is gone.
func (o topOrder) next(list []string, steps int) topOrder {
	at := slices.Index(list, o.by)
	o.by = list[(max(at, 0)+steps+len(list))%len(list)]
	return o
}

// apply returns the visible rows, sorted. A module without the column keeps its order.
func (o topOrder) apply(r topModule) topModule {
	r.Rows = slices.DeleteFunc(slices.Clone(r.Rows), func(row topRow) bool { return !row.contains(o.filter) })
	columns := topColumns(r.status.Columns)
	at := slices.IndexFunc(columns, func(c topColumn) bool { return c.title == o.by && !c.share })
	slices.SortStableFunc(r.Rows, func(a, b topRow) int {
		switch {
		case o.by == byScope:
			return cmp.Or(cmp.Compare(a.Scope, b.Scope), cmp.Compare(a.Part, b.Part))
		case at >= 0:
			return cmp.Compare(b.figure(columns[at]), a.figure(columns[at]))
		}
		return 0
	})
	if o.reversed {
		slices.Reverse(r.Rows)
	}
	return r
}

func (r topRow) contains(text string) bool {
	return strings.Contains(strings.ToLower(strings.Join([]string{r.Scope, r.Applies, r.Part, r.State}, "\n")), text)
}

// figure is what a column is sorted by: of a histogram the higher percentile.
func (r topRow) figure(c topColumn) float64 {
	value := r.Values[c.of.Name]
	if value.P99 != nil {
		return *value.P99
	}
	return value.Number
}
