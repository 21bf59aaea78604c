// SPDX-License-Identifier: Apache-2.0

package offload

import (
	"errors"
	"fmt"
	"net/netip"

	"weir/modules/offload/flower"
	"weir/modules/offload/plan"
)

// After a full table, the next try leaves 1/spareOf of its capacity free for later routes, and
// because the last rules of a batch may be missing.
const spareOf = 16

// fit installs a plan with decreasing budgets until the table accepts it, and so learns its
// capacity. Without a budget it installs all or nothing.
func fit(p *plan.Planner, counted map[netip.Addr]uint64, install func() error) (notes []string, err error) {
	for {
		err = install()
		var full *flower.Full
		if !p.Budgeted() || !errors.As(err, &full) {
			return notes, err
		}
		taken := min(full.Prefixes, p.Chosen().Rules)
		budget := taken - taken/spareOf - 1
		if budget < 1 {
			return notes, err
		}
		notes = append(notes, fmt.Sprintf("offload: the table was full after %d prefixes: the budget is now %d", taken, budget))
		p.Choose(budget, traffic(p, counted))
	}
}
