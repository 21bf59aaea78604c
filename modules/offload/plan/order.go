// SPDX-License-Identifier: Apache-2.0

package plan

import "weir/modules/offload/state"

// Op is one change of a table with single-entry updates.
type Op struct {
	Entry
	Remove bool
	// Replace changes the decision of an existing prefix.
	Replace bool
}

// Order returns the steps from one table to another. At every step each address has its old or its
// new decision: additions and changes come first, the longest prefixes first, then removals, the
// shortest first.
//
// A new prefix finds all longer ones of the new table in place, so it decides only its own
// addresses. A removal leaves no shorter prefix to be removed later, so its addresses fall to the
// new table.
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
