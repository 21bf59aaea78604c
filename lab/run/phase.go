package run

import (
	"context"
	"fmt"
	"sync"
	"time"

	"weir/lab/scenario"
	"weir/lab/traffic"
)

// grace is how long after its end a flow may still take to report.
const grace = 30 * time.Second

// runPhase generates the phase's traffic, all flows released together, and returns when the last one has reported.
func runPhase(ctx context.Context, bench *Bench, phase scenario.Phase, generator traffic.Generator) PhaseResult {
	result := PhaseResult{Phase: phase, Flows: make([]traffic.Result, len(phase.Flows))}
	ctx, cancel := context.WithTimeout(ctx, phase.Duration+grace)
	defer cancel()
	var running sync.WaitGroup
	release := make(chan struct{})
	for i, flow := range phase.Flows {
		running.Go(func() {
			<-release
			result.Flows[i] = runFlow(ctx, bench, flow, generator)
		})
	}
	if len(phase.Streams) > 0 {
		running.Go(func() {
			<-release
			result.Streams = runStreams(ctx, bench, phase)
		})
	}
	if len(phase.Flows)+len(phase.Streams) == 0 {
		running.Go(func() {
			<-release
			pause(ctx, phase.Duration)
		})
	}
	close(release)
	running.Wait()
	return result
}

func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// runFlow generates one flow; what goes wrong is said in the result.
func runFlow(ctx context.Context, bench *Bench, flow traffic.Flow, generator traffic.Generator) traffic.Result {
	failed := func(err error) traffic.Result {
		return traffic.Result{Flow: flow, Generator: generator.Name(), Failed: err.Error()}
	}
	from, err := bench.endpoint(flow.From, 4)
	if err != nil {
		return failed(err)
	}
	to, err := bench.endpoint(flow.To, 4)
	if err != nil {
		return failed(err)
	}
	result, err := generator.Run(ctx, flow, from, to)
	if err != nil {
		return failed(err)
	}
	return result
}

// endpoint is where a flow of the family ends in a node.
func (b *Bench) endpoint(node string, family int) (traffic.Endpoint, error) {
	address, ok := b.Cell.Address(node, family)
	if !ok {
		return traffic.Endpoint{}, fmt.Errorf("node %s has no IPv%d address", node, family)
	}
	return traffic.Endpoint{Namespace: b.Topology.Nodes[node], Address: address}, nil
}
