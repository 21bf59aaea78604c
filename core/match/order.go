// SPDX-License-Identifier: Apache-2.0

package match

import (
	"fmt"
	"maps"
	"slices"

	"weir/kernel/bpferr"
)

// MaxDepth is the maximum number of ancestors of a scope that decides.
const MaxDepth = int(matchMatchDepthMATCH_MAX_DEPTH)

// Order is the precedence of a scope among scopes that match the same traffic (bpf/match_decide.h).
type Order struct {
	Parent int  // number of the parent scope; -1 for none
	Shadow bool // count only; the next scope decides
	Host   bool // the whole host: every other scope precedes it
}

// Orders maps numbers of deciding scopes to their precedence.
type Orders map[int]Order

// SetOrders stores orders, and removes those of gone that are not among them.
func (m Maps) SetOrders(gone, now Orders) error {
	entries := *m.Entries[matchMapScopeOrders]
	all := map[int]matchMatchOrder{}
	for scope := range gone {
		all[scope] = matchMatchOrder{}
	}
	for scope, order := range now {
		all[scope] = order.raw()
	}
	for _, scope := range slices.Sorted(maps.Keys(all)) {
		if err := entries.Put(uint32(scope), all[scope]); err != nil {
			return bpferr.Needs{Capabilities: "CAP_BPF"}.Fault(fmt.Sprintf("set order of scope %d", scope), err)
		}
	}
	return nil
}

func (o Order) raw() matchMatchOrder {
	raw := matchMatchOrder{Parent: uint32(o.Parent + 1), Flags: matchMatchOrderFlagsMATCH_ORDER_DECIDES}
	if o.Shadow {
		raw.Flags |= matchMatchOrderFlagsMATCH_ORDER_SHADOW
	}
	if o.Host {
		raw.Flags |= matchMatchOrderFlagsMATCH_ORDER_HOST
	}
	return raw
}
