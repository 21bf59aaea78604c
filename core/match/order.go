// SPDX-License-Identifier: Apache-2.0

package match

import (
	"fmt"
	"maps"
	"slices"

	"weir/kernel/bpferr"
)

// MaxDepth is how many scopes may be above one that decides something.
const MaxDepth = int(matchMatchDepthMATCH_MAX_DEPTH)

// Order is a scope's place among those that apply to the same traffic, where one has to decide
// (bpf/match_decide.h).
type Order struct {
	Parent int  // number of the scope that it is a part of; -1 for none
	Shadow bool // it counts, and leaves the decision to the next one
	Host   bool // it is the whole host: every other scope decides before it
}

// Orders are those of scopes that decide something, by their numbers.
type Orders map[int]Order

// SetOrders stores orders, and forgets those of gone that are not among them.
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
