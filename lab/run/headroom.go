// SPDX-License-Identifier: Apache-2.0

package run

import (
	"context"
	"errors"
	"fmt"
	"time"

	"weir/internal/units"
	"weir/kernel/congestion"
	"weir/lab/scenario"
	"weir/lab/traffic"
)

const (
	// headroom is the minimum rate of a path without its limit, relative to the limit. Below it the
	// figures would describe the machine instead of the limit.
	headroom        = 1.2
	headroomStreams = 4
	headroomTime    = time.Second
)

// way is a path and a rate below its measured capacity.
type way struct {
	from, to string
	links    int
	rate     units.BitRate
}

// headroom reports the limits of a cell with paths that carry no more without them. Paths with an
// emulated link are excluded: the links' own gate judges them. A sufficient path is measured once.
func (e *execution) headroom(ctx context.Context, cell *scenario.Cell) ([]string, error) {
	var reasons []string
	for _, l := range cell.Limits {
		flow, found := flowUnder(cell, l)
		if !found || l.Mechanism == scenario.Unlimited || l.Mechanism == scenario.Shadow || len(Cables(cell)) > 0 {
			continue
		}
		from, to := flow.Data()
		w := way{from, to, len(cell.Links), l.Rate}
		if e.carried[w] {
			continue
		}
		got, err := e.unlimited(ctx, cell, from, to)
		if err != nil {
			return nil, err
		}
		if need := units.BitRate(headroom * float64(l.Rate)); got < need {
			reasons = append(reasons, fmt.Sprintf("without limit %s, %d connections got %s from %s to %s; a limit of %s is measurable only if the machine carries %s",
				l.Name, headroomStreams, got, from, to, l.Rate, need))
			continue
		}
		if e.carried == nil {
			e.carried = map[way]bool{}
		}
		e.carried[w] = true
	}
	return reasons, nil
}

// flowUnder is the first TCP flow under the limit.
func flowUnder(cell *scenario.Cell, l scenario.Limit) (traffic.Flow, bool) {
	for _, phase := range cell.Phases {
		for _, f := range phase.Flows {
			if l.On(f) && f.Kind != traffic.Datagram {
				return f, true
			}
		}
	}
	return traffic.Flow{}, false
}

// unlimited is the goodput from one host to another on the cell's network without its limits.
func (e *execution) unlimited(ctx context.Context, cell *scenario.Cell, from, to string) (got units.BitRate, err error) {
	free := *cell
	free.Limits = nil
	bench, err := Raise(ctx, e.lab, &free, e.options.Carrier)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, bench.Close(), e.lab.Clear()) }()
	probe := traffic.Flow{Name: "headroom", Kind: traffic.Bulk, From: from, To: to, Streams: headroomStreams, Duration: headroomTime}
	if congestion.Check("cubic") == nil {
		probe.Congestion = "cubic"
	}
	ready, err := bench.prepareFlow(ctx, probe, e.options.Generator)
	result := preparedFlow{probe, ready, err}.run(ctx, e.options.Generator)
	if result.Failed != "" && ctx.Err() == nil {
		return 0, fmt.Errorf("measure the path from %s to %s without limits: %s", from, to, result.Failed)
	}
	return result.Goodput, ctx.Err()
}
