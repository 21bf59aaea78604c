// SPDX-License-Identifier: Apache-2.0

package limit

import (
	"fmt"
	"slices"

	"weir/core/policy"
	"weir/internal/units"
)

// share completes what children have from their parents, and checks that it can be kept. It goes
// down for rates, so that a parent's is known before its children's, and up for minima: a scope is
// kept at least what it keeps for its children.
func share(d *policy.Draft, own []*Treatment) {
	down := make([]int, len(own))
	for i := range down {
		down[i] = i
	}
	slices.SortStableFunc(down, func(a, b int) int { return d.Scopes[a].Depth - d.Scopes[b].Depth })
	for _, i := range down {
		if above := d.Scopes[i].Above; above >= 0 {
			inherit(d, &d.Scopes[i], own[i], own[above])
		}
	}
	kept := make([][len(Directions)]units.BitRate, len(own)) // for the children of a scope, by direction
	for _, i := range slices.Backward(down) {
		for _, of := range Directions {
			rate := own[i].of(of)
			if rate == nil {
				continue
			}
			if kept[i][of] > rate.Rate {
				d.Complain(&d.Scopes[i], of.String(), "%s: its children have minima of %s together, more than its rate of %s: lower one of them or raise the rate",
					of, kept[i][of], rate.Rate)
			}
			if above := d.Scopes[i].Above; above >= 0 {
				rate.Min = max(rate.Min, kept[i][of])
				kept[above][of] += rate.Min
			}
		}
	}
}

// inherit completes and checks one scope against its parent.
func inherit(d *policy.Draft, s *policy.DraftScope, own, parent *Treatment) {
	for _, of := range Directions {
		above := parent.of(of)
		complain := func(format string, args ...any) {
			d.Complain(s, of.String(), "%s: %s", of, fmt.Sprintf(format, args...))
		}
		switch rate := own.of(of); {
		case above == nil && rate == nil:
		case above == nil && (rate.Min > 0 || rate.Weight > 0):
			complain("it has a part in %s, which does not limit this direction: give that a rate for it", s.Parent)
		case above == nil && rate.Rate == 0:
			complain("no rate is given, and %s has none for this direction: give one of them", s.Parent)
		case above == nil:
		case rate == nil:
			own.set(of, &Limit{Rate: above.Rate, Weight: 1, By: above.By})
		default:
			if rate.Rate == 0 {
				rate.Rate = above.Rate
			}
			rate.Weight = max(rate.Weight, 1)
			if rate.By == "" {
				rate.By = above.By
			}
			if (rate.By == ByDelay) != (above.By == ByDelay) {
				complain("it and %s are limited in different ways: give both by: delay or neither", s.Parent)
			}
			if least := min(rate.Rate, above.Rate); rate.Min > least {
				complain("min %s is above %s, the most that it and %s may use: lower it", rate.Min, least, s.Parent)
			}
		}
	}
}
