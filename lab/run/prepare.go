// SPDX-License-Identifier: Apache-2.0

package run

import (
	"context"
	"sync"

	"weir/lab/scenario"
	"weir/lab/topology"
	"weir/lab/traffic"
)

// prepared is a phase whose flows can begin: what generators have to do before is done.
type prepared struct {
	phase scenario.Phase
	flows []preparedFlow
}

// preparedFlow is one of them. What kept it from being ready is in failed.
type preparedFlow struct {
	flow   traffic.Flow
	ready  traffic.Ready
	failed error
}

// prepare has the phase's generators do what comes before its time, all at once.
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

// close ends what is left of the flows.
func (p *prepared) close() {
	for _, f := range p.flows {
		if f.ready != nil {
			f.ready.Close()
		}
	}
}

// run generates the flow; what goes wrong is said in the result.
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

// hosts is the file of the nodes' names for what runs in them, by the version of IP.
func (b *Bench) hosts(family int) string {
	if b.Topology.Directory == "" {
		return ""
	}
	return topology.HostsFile(b.Topology.Directory, family)
}
