package run

import (
	"context"
	"time"

	"weir/lab/fidelity"
	"weir/lab/scenario"
)

// Fidelity is the gate of real measurements: probe frames before the traffic, counters and processor times around it.
type Fidelity struct{}

// Calibrate probes the emulated links one after the other, so that they do not disturb each other, and stops at the first
// that is not what was asked.
func (Fidelity) Calibrate(ctx context.Context, bench *Bench) ([]fidelity.Calibration, error) {
	var all []fidelity.Calibration
	for i, l := range bench.Cell.Links {
		if l.Plain {
			continue
		}
		calibration, err := fidelity.Calibrate(ctx, fidelity.Link{
			Name: l.Name, A: bench.end(2 * i), B: bench.end(2*i + 1), Forward: l.Forward, Reverse: l.Reverse,
		})
		if err != nil {
			return all, err
		}
		all = append(all, calibration)
		if !calibration.OK() {
			break
		}
	}
	return all, nil
}

// Watch observes the hosts' ends of the emulated links, the carrier and the processors.
func (Fidelity) Watch(_ context.Context, bench *Bench) (Watch, error) {
	var ends []fidelity.Endpoint
	for i, end := range bench.Topology.Ends {
		if end.Carrier != "" {
			ends = append(ends, bench.end(i))
		}
	}
	watch, err := fidelity.NewWatch(bench.Carrying, ends, fidelity.DefaultLimits(shortestDelay(bench.Cell)))
	if err != nil {
		return nil, err
	}
	return judge{watch}, nil
}

type judge struct{ watch *fidelity.Watch }

func (j judge) Judge() (fidelity.Judgement, error) { return j.watch.Finish() }

// end is a node's end of a link, by its place in Topology.Ends.
func (b *Bench) end(index int) fidelity.Endpoint {
	end := b.Topology.Ends[index]
	return fidelity.Endpoint{Namespace: b.Topology.Nodes[end.Node], Device: end.Device}
}

// shortestDelay is the least delay that the cell's links emulate; 0 if one emulates none.
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
