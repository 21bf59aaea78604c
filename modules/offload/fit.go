// SPDX-License-Identifier: Apache-2.0

package offload

import (
	"errors"
	"fmt"
	"net/netip"

	"weir/modules/offload/flower"
	"weir/modules/offload/plan"
)

// Of what a table has taken before it was full, the next try leaves one in spareOf free: for routes
// that come later, and since the last few of a batch may not have been taken.
const spareOf = 16

// fit installs a plan with ever smaller budgets until the table takes it: so its capacity is
// learned from what it refuses. Without a budget, all or none. The plan's budget is what was
// learned.
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
		notes = append(notes, fmt.Sprintf("offload: the table was full after %d prefixes: the budget is %d", taken, budget))
		p.Choose(budget, traffic(p, counted))
	}
}
