// SPDX-License-Identifier: Apache-2.0

package run

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"weir/internal/units"
	"weir/lab/fidelity"
	"weir/lab/fidelity/witness"
	"weir/lab/link"
	"weir/lab/scenario"
)

// Fidelity is the gate of real measurements: probe frames before the traffic, counters, CPU times
// and a witness for everything else.
type Fidelity struct{}

// Begin starts a witness that records the built configuration. It ends with the bench.
func (Fidelity) Begin(bench *Bench) (err error) {
	bench.witness, err = witness.Open(bench.testbed())
	return err
}

// Calibrate probes the emulated links.
func (Fidelity) Calibrate(ctx context.Context, bench *Bench) ([]fidelity.Calibration, error) {
	var links []fidelity.Link
	for i, l := range bench.Cell.Links {
		if !l.Plain {
			links = append(links, fidelity.Link{Name: l.Name, A: bench.end(2 * i), B: bench.end(2*i + 1), Forward: l.Forward, Reverse: l.Reverse})
		}
	}
	return fidelity.CalibrateAll(ctx, links)
}

// Watch observes the hosts' ends of the emulated links, the carrier and the CPUs, and starts the
// witness (package lab/fidelity/witness).
func (Fidelity) Watch(ctx context.Context, bench *Bench) (Watch, error) {
	if err := bench.witness.Start(ctx); err != nil {
		return nil, err
	}
	var ends []fidelity.Endpoint
	for i, end := range bench.Topology.Ends {
		if end.Carrier != "" {
			ends = append(ends, bench.end(i))
		}
	}
	watch, err := fidelity.NewWatch(bench.Carrying, ends, limitsOf(bench.Cell))
	if err != nil {
		return nil, err
	}
	return judge{watch, bench}, nil
}

type judge struct {
	watch *fidelity.Watch
	bench *Bench
}

func (j judge) Settled() error {
	j.bench.witness.Settled()
	return j.watch.Settled()
}

// Judge lists the witness's reasons first: they name causes, the watch's reasons name symptoms.
func (j judge) Judge(ctx context.Context, phases []PhaseResult) (fidelity.Judgement, error) {
	report, err := j.bench.witness.Finish(ctx, j.bench.flows(phases))
	if err != nil {
		return fidelity.Judgement{}, err
	}
	judgement, err := j.watch.Finish()
	switch {
	case err != nil && len(report.Reasons) > 0 && !errors.Is(err, link.ErrBroken): // the witness's reasons explain it
	case err != nil:
		return judgement, err
	}
	judgement.Reasons = slices.Concat(report.Reasons, judgement.Reasons)
	judgement.Valid = len(judgement.Reasons) == 0
	judgement.Witness = &report
	return judgement, nil
}

// end is a node's end of a link, by its index in Topology.Ends.
func (b *Bench) end(index int) fidelity.Endpoint {
	end := b.Topology.Ends[index]
	return fidelity.Endpoint{Namespace: b.Topology.Nodes[end.Node], Device: end.Device}
}

// shortestDelay is the minimum delay of the cell's emulated links; 0 if one has none.
func shortestDelay(cell *scenario.Cell) time.Duration {
	shortest := time.Duration(-1)
	for _, l := range cell.Links {
		if l.Plain {
			continue
		}
		least := min(l.Forward.Delay, l.Reverse.Delay)
		if shortest < 0 || least < shortest {
			shortest = least
		}
	}
	return max(0, shortest)
}

// Capacity tries fractions of the rate of the cell's fastest link on a link of its own.
func (Fidelity) Capacity(ctx context.Context, carrier link.Carrier, cell *scenario.Cell) (string, error) {
	var fastest link.Direction
	for _, cable := range Cables(cell) {
		for _, d := range []link.Direction{cable.Forward, cable.Reverse} {
			if d.Rate > fastest.Rate {
				fastest = d
			}
		}
	}
	if fastest.Rate == 0 {
		return "", nil
	}
	asked := fastest.Rate
	rates := []units.BitRate{asked, asked / 4 * 3, asked / 2, asked / 4, asked / 10}
	capable, err := fidelity.Capacity(ctx, carrier, fastest, rates)
	switch {
	case err != nil:
		return "", err
	case capable.Rate == asked:
		return fmt.Sprintf("a single TCP flow over one such link of %s holds on this machine just now, so it is the number of links or other work that is too much", asked), nil
	case capable.Rate == 0:
		return fmt.Sprintf("this machine does not even carry one link of %s just now", rates[len(rates)-1]), nil
	}
	return fmt.Sprintf("this machine carries one such link at %s", capable.Rate), nil
}
