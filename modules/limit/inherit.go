// SPDX-License-Identifier: Apache-2.0

package limit

import (
	"fmt"
	"slices"

	"weir/core/policy"
	"weir/internal/direction"
	"weir/internal/units"
	"weir/modules/limit/police"
)

// inheritAll completes the limits of children from their parents, top-down for rates, and checks
// that the minima fit, bottom-up: a scope's minimum covers those of its children.
func inheritAll(d *policy.Draft, own []*Treatment) {
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
	minima := make([][len(direction.Both)]units.BitRate, len(own)) // sum over a scope's children
	for _, i := range slices.Backward(down) {
		for _, dir := range direction.Both {
			rate := own[i].of(dir)
			if rate == nil {
				continue
			}
			if minima[i][dir] > rate.Rate {
				d.Complain(&d.Scopes[i], dir.String(), "%s: the minima of its children add up to %s, above its rate of %s: lower one of them or raise the rate",
					dir, minima[i][dir], rate.Rate)
			}
			if above := d.Scopes[i].Above; above >= 0 {
				rate.Min = max(rate.Min, minima[i][dir])
				minima[above][dir] += rate.Min
			}
		}
	}
}

// inherit completes and checks the limits of one scope against its parent's.
func inherit(d *policy.Draft, s *policy.DraftScope, own, parent *Treatment) {
	for _, dir := range direction.Both {
		above := parent.of(dir)
		complain := func(format string, args ...any) {
			d.Complain(s, dir.String(), "%s: %s", dir, fmt.Sprintf(format, args...))
		}
		switch rate := own.of(dir); {
		case above == nil && rate == nil:
		case above == nil && (rate.Min > 0 || rate.Weight > 0):
			complain("min and weight divide the rate of %s, which has none in this direction: add one there", s.Parent)
		case above == nil && rate.Rate == 0:
			complain("the rate is missing, and %s has none in this direction: write one of them", s.Parent)
		case above == nil:
		case rate == nil:
			own.set(dir, &Limit{Rate: above.Rate, Weight: 1, Mode: above.Mode})
		default:
			if rate.Rate == 0 {
				rate.Rate = above.Rate
			}
			rate.Weight = max(rate.Weight, 1)
			if rate.Mode == "" {
				rate.Mode = above.Mode
			}
			if (rate.Mode == police.ModeShape) != (above.Mode == police.ModeShape) {
				complain("it and %s have different modes: write mode: shape in both or in neither", s.Parent)
			}
			if ceiling := min(rate.Rate, above.Rate); rate.Min > ceiling {
				complain("min %s is above %s, the maximum that it and %s may use: lower it", rate.Min, ceiling, s.Parent)
			}
		}
	}
}
