// SPDX-License-Identifier: Apache-2.0

package run

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"time"

	"weir/internal/fault"
	"weir/lab/fidelity"
	"weir/lab/scenario"
	"weir/tester"
	"weir/tester/rfc2544"
	"weir/tester/rfc2544/forwarder"
	"weir/tester/session"
)

// ProcedureResult is the result of a phase's benchmark.
type ProcedureResult struct {
	Procedure scenario.Procedure
	Report    rfc2544.Report
	Device    string // configuration of the device under test; "" if unknown
	// Problem is the reason that the benchmark has no valid result, or "".
	Problem string
}

// Throughput is the result of the procedure's first test; the second result is false if there is
// none.
func (p *ProcedureResult) Throughput() (rfc2544.ThroughputResult, bool) {
	if len(p.Report.Throughput) == 0 {
		return rfc2544.ThroughputResult{}, false
	}
	return p.Report.Throughput[0], p.Report.Throughput[0].Measured()
}

// generatorCPU always sends; the device under test runs on the last CPU.
const generatorCPU = 0

// runProcedure runs the phase's benchmark for at most the phase's duration.
func runProcedure(ctx context.Context, bench *Bench, phase scenario.Phase) *ProcedureResult {
	result := &ProcedureResult{Procedure: *phase.Procedure}
	ctx, cancel := context.WithTimeout(ctx, phase.Duration)
	defer cancel()
	err := result.run(ctx, bench)
	t, measured := result.Throughput()
	switch {
	case err != nil:
		result.Problem = err.Error()
	case result.Report.Stopped:
		result.Problem = fmt.Sprintf("it had not ended after %s", phase.Duration)
	case !measured:
		result.Problem = t.Reason
	}
	return result
}

func (p *ProcedureResult) run(ctx context.Context, bench *Bench) (err error) {
	ports, err := p.ports(bench)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, ports.Close()) }()
	// Paced frames leave in time even beside other load.
	if err := session.Realtime(); err != nil {
		return fault.Wrap(err, fault.Permission, "run it as root outside of containers that forbid real-time scheduling")
	}
	defer func() { err = errors.Join(err, session.Ordinary()) }()
	defer func() { err = errors.Join(err, bench.Fast.Forwards()) }()
	p.Report, err = rfc2544.Run(ctx, p.config(), ports)
	if fault.Of(err) == fault.Testbed && len(p.Report.Throughput) > 0 {
		return nil // the results contain the reason
	}
	return err
}

// ports describes the hosts' devices to the tester, and prepares the first router between them as
// the device under test.
func (p *ProcedureResult) ports(bench *Bench) (*rfc2544.Ports, error) {
	from, to, family := p.Procedure.From, p.Procedure.To, p.Procedure.Family
	hops, err := bench.hops(from, to, family)
	if err != nil {
		return nil, err
	}
	source, found := bench.Cell.Address(from, family)
	if !found {
		return nil, fmt.Errorf("%s has no IPv%d address", from, family)
	}
	destination, _ := bench.Cell.Address(to, family)
	ports := &rfc2544.Ports{A: bench.port(hops[0]), B: bench.port(hops[len(hops)-1]),
		Header: tester.Header{Source: source, Destination: destination, SourcePort: firstPort, DestinationPort: echo}}
	ports.A.CPUs, ports.B.CPUs = []int{generatorCPU}, []int{generatorCPU}
	if len(hops) < 4 || !bench.Cell.Links[hops[1]/2].Plain || !bench.Cell.Links[hops[2]/2].Plain {
		return ports, nil // no router, or one behind emulated links: their carrier loses frames first
	}
	in, out := bench.port(hops[1]), bench.port(hops[2])
	device, err := forwarder.Prepare(in.Namespace, in.Device, out.Device, max(runtime.NumCPU()-1, generatorCPU+1))
	if err != nil {
		return nil, err
	}
	ports.Device, p.Device = device, device.String()
	if by := bench.Fast.By(in.Name); by != "" {
		p.Device += "; packets by " + by
	}
	return ports, nil
}

// Virtual devices need no learning or settling, and a trial's frames arrive at once or never.
const (
	residual = 50 * time.Millisecond
	rest     = 10 * time.Millisecond
)

// config is the procedure of the phase.
func (p *ProcedureResult) config() rfc2544.Config {
	q := p.Procedure
	setup := rfc2544.Setup{Sizes: []int{q.FrameSize}, IPv6: q.Family == 6, Medium: "virtual cables",
		Stream: fmt.Sprintf("UDP over IPv%d over Ethernet, constant gap, one source and destination, 18-octet stamp", q.Family)}
	for _, test := range q.Tests {
		setup.Tests = append(setup.Tests, rfc2544.Test(test))
	}
	c := rfc2544.Quick(setup).OnSharedMachine()
	c.SearchTime, c.FinalTime, c.LatencyTime, c.LossTime = q.Search, q.Trial, q.Trial, q.Trial
	c.LearnWait, c.ResidualWait, c.RestWait = 0, residual, rest
	c.Resolution, c.Acceptable, c.Verify, c.VerifyFinal = q.Resolution, q.Acceptable, q.Repeat, q.Repeat
	return c
}

// limitsOf returns the tolerances of a cell's runs. A procedure occupies the CPUs on purpose and
// judges each of its trials itself.
func limitsOf(cell *scenario.Cell) fidelity.Limits {
	limits := fidelity.DefaultLimits(shortestDelay(cell))
	for _, phase := range cell.Phases {
		if phase.Procedure != nil {
			limits.Busy, limits.Steal = 1, 1
		}
	}
	return limits
}
