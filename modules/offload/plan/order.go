// SPDX-License-Identifier: Apache-2.0

package plan

import "weir/modules/offload/state"

// Op is one change of a table that is updated entry by entry.
type Op struct {
	Entry
	Remove bool
	// Replace means that the prefix exists and gets another decision.
	Replace bool
}

// Order lists what leads from one table to another so that at every moment in between each address
// has the decision of before or that of after: first what is new or changes, the longest prefixes
// first, then what goes, the shortest first.
//
// A prefix that comes finds all longer ones of the new table in place, so that it decides only what
// it is to decide. A prefix that goes leaves no shorter one behind that is to go as well, so that
// its addresses fall to the new table.
//
// Both tables are in the order of [state.Compare].
func Order(have, want []Entry) []Op {
	var come, leave []Op
	for len(have)+len(want) > 0 {
		order := 0
		switch {
		case len(have) == 0:
			order = 1
		case len(want) == 0:
			order = -1
		default:
			order = state.Compare(have[0].To, want[0].To)
		}
		switch {
		case order < 0:
			leave = append(leave, Op{Entry: have[0], Remove: true})
		case order > 0 || have[0].Decision != want[0].Decision:
			come = append(come, Op{Entry: want[0], Replace: order == 0})
		}
		if order <= 0 {
			have = have[1:]
		}
		if order >= 0 {
			want = want[1:]
		}
	}
	all := make([]Op, len(come)+len(leave))
	distribute(all[:len(come)], come, func(bits int) int { return longest - bits })
	distribute(all[len(come):], leave, func(bits int) int { return bits })
	return all
}

const longest = 128 // prefix

// distribute sorts stably by the rank of lengths.
func distribute(into, from []Op, rank func(bits int) int) {
	var next [longest + 2]int
	for _, op := range from {
		next[rank(op.To.Bits())+1]++
	}
	for i := range longest {
		next[i+1] += next[i]
	}
	for _, op := range from {
		at := &next[rank(op.To.Bits())]
		into[*at] = op
		*at++
	}
}
