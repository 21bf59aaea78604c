// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"cmp"
	"net/netip"
	"slices"
)

// Op is one change of a table whose entries are changed one by one.
type Op struct {
	Entry
	Remove bool
	// Replace says that the prefix is there and gets another decision.
	Replace bool
}

// Order lists what leads from one table to another so that at every moment in between each address
// has the decision of before or that of after: first what is new or changes, the longest prefixes
// first, then what goes, the shortest first.
//
// A prefix that comes finds all longer ones of the new table in place, so that it decides only what
// it is to decide. A prefix that goes leaves no shorter one behind that is to go as well, so that
// its addresses fall to the new table.
func Order(have, want map[netip.Prefix]Decision) []Op {
	var come, leave []Op
	for to, d := range want {
		old, there := have[to]
		if !there || old != d {
			come = append(come, Op{Entry: Entry{to, d}, Replace: there})
		}
	}
	for to, d := range have {
		if _, stays := want[to]; !stays {
			leave = append(leave, Op{Entry: Entry{to, d}, Remove: true})
		}
	}
	slices.SortFunc(come, func(a, b Op) int {
		return cmp.Or(cmp.Compare(b.To.Bits(), a.To.Bits()), a.To.Addr().Compare(b.To.Addr()))
	})
	slices.SortFunc(leave, func(a, b Op) int {
		return cmp.Or(cmp.Compare(a.To.Bits(), b.To.Bits()), a.To.Addr().Compare(b.To.Addr()))
	})
	return append(come, leave...)
}
