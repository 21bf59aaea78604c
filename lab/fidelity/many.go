// SPDX-License-Identifier: Apache-2.0

package fidelity

import (
	"context"
	"runtime"
	"sync"

	"golang.org/x/sync/errgroup"

	"weir/internal/units"
	"weir/lab/link"
)

const (
	// few links are calibrated one after the other, with long trains.
	few = 2
	// atOnce is the number of concurrent calibrations per CPU, each in both directions. They mostly
	// wait for delays and departure times.
	atOnce = 4
	// fast links are calibrated one by one, because their probes need a CPU.
	fast = units.BitRate(200e6)
)

// CalibrateAll calibrates links, many at a time with short trains. A link that fails twice, or that
// drops frames on purpose (short trains measure loss badly), is calibrated again by Calibrate,
// alone. CalibrateAll stops at the first link that fails alone. A failed probe becomes a problem of
// its link.
func CalibrateAll(ctx context.Context, links []Link) ([]Calibration, error) {
	all := make([]Calibration, len(links))
	done := make([]bool, len(links))
	for _, each := range []int{atOnce, 1} {
		if len(links) > few {
			several(ctx, links, all, done, each*runtime.NumCPU())
		}
	}
	for i, l := range links {
		if done[i] {
			continue
		}
		var err error
		all[i], err = Calibrate(ctx, l)
		switch {
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case err != nil:
			all[i].Problems = append(all[i].Problems, err.Error())
		}
		if !all[i].OK() {
			return []Calibration{all[i]}, nil
		}
	}
	return all, nil
}

// several calibrates the remaining links, a number at a time. Failures are repeated later.
func several(ctx context.Context, links []Link, all []Calibration, done []bool, atOnce int) {
	var closing sync.WaitGroup
	defer closing.Wait()
	var group errgroup.Group
	group.SetLimit(atOnce)
	for i, l := range links {
		if done[i] || !quick(l.Forward) || !quick(l.Reverse) {
			continue
		}
		group.Go(func() error {
			var err error
			all[i], err = calibrateLink(ctx, l, trainPlan{shortTime, shortFrames, 1, 2, &closing})
			done[i] = err == nil && all[i].OK()
			return nil
		})
	}
	_ = group.Wait()
}

func quick(d link.Direction) bool {
	return d.Rate > 0 && d.Rate < fast && d.Loss.Share() == 0 && d.Jitter == 0 && d.Reorder == 0
}
