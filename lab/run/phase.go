// SPDX-License-Identifier: Apache-2.0

package run

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"weir/internal/wait"
	"weir/lab/domain"
	"weir/lab/limits"
	"weir/lab/traffic"
)

// grace is the time after its end in which a flow may still report.
const grace = 30 * time.Second

// collected returns the IOAM domain's counters of a phase once the links are empty.
func (b *Bench) collected(ctx context.Context) ([]domain.Status, error) {
	if b.Domain == nil {
		return nil, nil
	}
	if err := b.drain(ctx); err != nil {
		return nil, err
	}
	return b.Domain.End()
}

// countedPhase is runPhase with the limits' counters from the end of the settle time.
func countedPhase(ctx context.Context, bench *Bench, p *prepared, generator traffic.Generator) (PhaseResult, error) {
	phase := p.phase
	settled := make(chan counted, 1)
	read := func() {
		status, err := bench.Limits.Read()
		settled <- counted{status, time.Now(), err}
	}
	brokeOff := func() bool { return false }
	if phase.Settle > 0 {
		brokeOff = time.AfterFunc(phase.Settle, read).Stop
	} else {
		read() // before the first packet
	}
	result := runPhase(ctx, bench, p, generator)
	if brokeOff() {
		return result, nil
	}
	before := <-settled
	after, err := bench.Limits.Read()
	result.Limits, result.Counted = limits.Difference(after, before.status), time.Since(before.at)
	return result, errors.Join(before.err, err)
}

// counted is a reading of the limits.
type counted struct {
	status []limits.Status
	at     time.Time
	err    error
}

// runPhase starts all flows of the phase at once and returns after the last report.
func runPhase(ctx context.Context, bench *Bench, p *prepared, generator traffic.Generator) PhaseResult {
	phase := p.phase
	result := PhaseResult{Phase: phase, Flows: make([]traffic.Result, len(phase.Flows))}
	ctx, cancel := context.WithTimeout(ctx, phase.Duration+grace)
	defer cancel()
	var running sync.WaitGroup
	release := make(chan struct{})
	for i, flow := range p.flows {
		running.Go(func() {
			<-release
			result.Flows[i] = flow.run(ctx, generator)
		})
	}
	if len(phase.Streams) > 0 {
		running.Go(func() {
			<-release
			result.Streams = runStreams(ctx, bench, phase)
		})
	}
	if phase.Procedure != nil {
		running.Go(func() {
			<-release
			result.Procedure = runProcedure(ctx, bench, phase)
		})
	}
	if len(phase.Flows)+len(phase.Streams) == 0 && phase.Procedure == nil {
		running.Go(func() {
			<-release
			_ = wait.For(ctx, phase.Duration)
		})
	}
	close(release)
	running.Wait()
	return result
}

// endpoint is a flow's end in a node, with its IP version and the cgroup of its limit there.
func (b *Bench) endpoint(node string, flow traffic.Flow) (traffic.Endpoint, error) {
	address, ok := b.Cell.Address(node, flow.IP())
	if !ok {
		return traffic.Endpoint{}, fmt.Errorf("node %s has no IPv%d address", node, flow.IP())
	}
	return traffic.Endpoint{Namespace: b.Topology.Nodes[node], Address: address,
		Group: b.Limits.Group(node, flow.Name), Hosts: b.hosts(flow.IP())}, nil
}
