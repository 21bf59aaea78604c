// SPDX-License-Identifier: Apache-2.0

package top

import (
	"cmp"
	"slices"
	"strings"
)

// Orders of the live view that are not columns.
const (
	byShare = "busiest"
	byScope = "scope"
)

// topOrder is the sort order and the filter of the live view.
type topOrder struct {
	by       string // byShare, byScope, or a column's title
	reversed bool
	filter   string // lower-case substring of scope, selector, part or state
}

// orders lists the possible sort orders: share, scope, and the columns of all modules, each once.
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

// next returns the order some steps after o in list. A missing o counts as the first.
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

// figure returns the sort key of a column: the 99th percentile of a histogram, else the number.
func (r topRow) figure(c topColumn) float64 {
	value := r.Values[c.of.Name]
	if value.P99 != nil {
		return *value.P99
	}
	return value.Number
}
