// SPDX-License-Identifier: Apache-2.0

package run

import (
	"context"
	"sync"

	"weir/lab/scenario"
	"weir/lab/topology"
	"weir/lab/traffic"
)

// prepared is a phase with flows that are ready to start.
type prepared struct {
	phase scenario.Phase
	flows []preparedFlow
}

// preparedFlow is a flow of the phase; failed holds the error of its preparation.
type preparedFlow struct {
	flow   traffic.Flow
	ready  traffic.Ready
	failed error
}

// prepare lets the phase's generators prepare their flows, all at once.
func (b *Bench) prepare(ctx context.Context, phase scenario.Phase, generator traffic.Generator) *prepared {
	p := &prepared{phase: phase, flows: make([]preparedFlow, len(phase.Flows))}
	var working sync.WaitGroup
	for i, flow := range phase.Flows {
		working.Go(func() {
			ready, err := b.prepareFlow(ctx, flow, generator)
			p.flows[i] = preparedFlow{flow, ready, err}
		})
	}
	working.Wait()
	return p
}

func (b *Bench) prepareFlow(ctx context.Context, flow traffic.Flow, generator traffic.Generator) (traffic.Ready, error) {
	from, err := b.endpoint(flow.From, flow)
	if err != nil {
		return nil, err
	}
	to, err := b.endpoint(flow.To, flow)
	if err != nil {
		return nil, err
	}
	if preparer, able := generator.(traffic.Preparer); able {
		return preparer.Prepare(ctx, flow, from, to)
	}
	return traffic.Unprepared(generator, flow, from, to), nil
}

// close ends the remaining flows.
func (p *prepared) close() {
	for _, f := range p.flows {
		if f.ready != nil {
			f.ready.Close()
		}
	}
}

// run generates the flow; errors are in the result.
func (f preparedFlow) run(ctx context.Context, generator traffic.Generator) traffic.Result {
	result, err := traffic.Result{}, f.failed
	if err == nil {
		result, err = f.ready.Run(ctx)
	}
	if err != nil {
		return traffic.Result{Flow: f.flow, Generator: generator.Name(), Failed: err.Error(), Programs: result.Programs}
	}
	return result
}

// hosts returns the hosts file with the nodes' names, by IP version.
func (b *Bench) hosts(family int) string {
	if b.Topology.Directory == "" {
		return ""
	}
	return topology.HostsFile(b.Topology.Directory, family)
}
