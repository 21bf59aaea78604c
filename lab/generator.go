// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"context"

	"weir/internal/fault"
	"weir/internal/nearest"
	"weir/lab/link"
	"weir/lab/link/carry"
	"weir/lab/run"
	"weir/lab/scenario"
	"weir/lab/traffic"
	"weir/lab/traffic/command"
	"weir/lab/traffic/iperf"
	"weir/lab/traffic/native"
)

// Carrier chooses the carrier of the scenario's links: by one of carry.Names, or by probing this
// kernel.
func Carrier(name string, s *scenario.Scenario) (carry.Choice, error) {
	cells, err := s.Expand()
	if err != nil {
		return carry.Choice{}, err
	}
	var cables []link.Cable
	for i := range cells {
		cables = append(cables, run.Cables(&cells[i])...)
	}
	return carry.Choose(name, cables...)
}

// Generators lists the names that [Generator] accepts.
func Generators() []string { return []string{"weir", "iperf3"} }

// Generator returns the traffic generator of that name. A flow that names another generator uses
// its own.
func Generator(name string) (traffic.Generator, error) {
	chosen, err := generator(name)
	if err != nil {
		return nil, err
	}
	return perFlow{chosen}, nil
}

// perFlow selects the generator that each flow names, so that one run can compare generators.
type perFlow struct{ traffic.Generator }

func (p perFlow) of(flow traffic.Flow) (traffic.Generator, error) {
	switch {
	case flow.Kind == traffic.Program:
		return command.Generator{}, nil
	case flow.Generator == "":
		return p.Generator, nil
	}
	return generator(flow.Generator)
}

// Check implements [traffic.Generator].
func (p perFlow) Check(flow traffic.Flow) error {
	chosen, err := p.of(flow)
	if err != nil {
		return err
	}
	return chosen.Check(flow)
}

// Run implements [traffic.Generator].
func (p perFlow) Run(ctx context.Context, flow traffic.Flow, from, to traffic.Endpoint) (traffic.Result, error) {
	chosen, err := p.of(flow)
	if err != nil {
		return traffic.Result{}, err
	}
	return chosen.Run(ctx, flow, from, to)
}

// Prepare implements [traffic.Preparer].
func (p perFlow) Prepare(ctx context.Context, flow traffic.Flow, from, to traffic.Endpoint) (traffic.Ready, error) {
	chosen, err := p.of(flow)
	if err != nil {
		return nil, err
	}
	if preparer, able := chosen.(traffic.Preparer); able {
		return preparer.Prepare(ctx, flow, from, to)
	}
	return traffic.Unprepared(chosen, flow, from, to), nil
}

func generator(name string) (traffic.Generator, error) {
	switch name {
	case "weir":
		return native.New(), nil
	case "iperf3":
		return iperf.Generator{}, nil
	}
	return nil, fault.New(fault.Usage, "use weir or iperf3", "there is no generator %q%s", name, nearest.Hint(name, Generators()))
}
