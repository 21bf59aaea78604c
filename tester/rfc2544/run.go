// SPDX-License-Identifier: Apache-2.0

package rfc2544

import (
	"context"
	"fmt"
	"slices"
	"time"

	"weir/internal/fault"
)

// Report holds all results of a benchmark.
type Report struct {
	Config            Config
	Started, Finished time.Time
	Mechanisms        map[string]string
	Throughput        []ThroughputResult
	Latency           []LatencyResult
	FrameLoss         []LossResult
	BackToBack        []BurstResult
	Recovery          []RecoveryResult
	Reset             []ResetResult
	Attempts          []Attempt
	Stopped           bool // ended early; earlier results are kept
}

// Run runs the tests. A cancelled ctx ends it early with the results so far and Stopped set. The
// error has status Testbed if no test gave any result.
func Run(ctx context.Context, config Config, bench Bench) (Report, error) {
	if err := config.check(); err != nil {
		return Report{}, err
	}
	r := &runner{Config: config, bench: bench}
	report := Report{Config: config, Started: time.Now()}
	err := r.pause(ctx, config.RouteWait)
	if err == nil {
		err = r.all(ctx, &report)
	}
	report.Finished, report.Attempts, report.Mechanisms = time.Now(), r.attempts, bench.Describe()
	if err != nil && ctx.Err() != nil {
		report.Stopped = true
		return report, nil
	}
	if err == nil {
		err = report.unmeasured()
	}
	return report, err
}

func (r *runner) all(ctx context.Context, report *Report) error {
	for _, size := range r.Sizes {
		if err := r.size(ctx, size, report); err != nil {
			return err
		}
	}
	if !r.asked(Reset) {
		return nil
	}
	for _, kind := range r.ResetKinds {
		result, err := r.reset(ctx, report.Throughput[0], kind)
		if err != nil {
			return err
		}
		report.Reset = append(report.Reset, result)
	}
	return nil
}

// size runs every test for one frame size; throughput comes first, since the others need it.
func (r *runner) size(ctx context.Context, size int, report *Report) error {
	var t ThroughputResult
	var err error
	if slices.ContainsFunc(r.Tests, func(test Test) bool { return test != FrameLoss }) {
		if t, err = r.throughput(ctx, size); err != nil {
			return err
		}
		report.Throughput = append(report.Throughput, t)
	}
	if r.asked(Latency) {
		if err := add(&report.Latency)(r.latency(ctx, t)); err != nil {
			return err
		}
	}
	if r.asked(FrameLoss) {
		if err := add(&report.FrameLoss)(r.frameLoss(ctx, size)); err != nil {
			return err
		}
	}
	if r.asked(BackToBack) {
		if err := add(&report.BackToBack)(r.backToBack(ctx, t)); err != nil {
			return err
		}
	}
	if r.asked(Recovery) {
		return add(&report.Recovery)(r.recovery(ctx, t))
	}
	return nil
}

// add returns a function that appends a result unless it comes with an error.
func add[T any](list *[]T) func(T, error) error {
	return func(result T, err error) error {
		if err == nil {
			*list = append(*list, result)
		}
		return err
	}
}

func (c Config) asked(test Test) bool { return slices.Contains(c.Tests, test) }

// check rejects a configuration that cannot be run.
func (c Config) check() error {
	for _, test := range c.Tests {
		if !slices.Contains(Tests, test) {
			return fault.New(fault.Usage, fmt.Sprintf("choose from %v", Tests), "%q is not a test of RFC 2544", test)
		}
	}
	smallest := 64
	if c.IPv6 {
		smallest = 84
	}
	switch {
	case len(c.Tests) == 0:
		return fault.New(fault.Usage, fmt.Sprintf("choose from %v", Tests), "no test was asked for")
	case len(c.Sizes) == 0:
		return fault.New(fault.Usage, "give --sizes", "no frame size was given")
	case c.asked(Reset) && len(c.ResetKinds) == 0:
		return fault.New(fault.Usage, "give --reset-command, a command that resets the device under test", "nothing says how to reset the device")
	}
	for _, size := range c.Sizes {
		if size < smallest || size > 9000 {
			return fault.New(fault.Usage, fmt.Sprintf("use sizes from %d to 9000", smallest),
				"a frame of %d octets cannot carry the stamp: headers, 18 octets of stamp and FCS take %d", size, smallest)
		}
	}
	return nil
}

// unmeasured returns the error of a benchmark without any result; nil if at least one test gave
// one.
func (r Report) unmeasured() error {
	var reasons []string
	measured := false
	for _, v := range r.results() {
		measured = measured || v.reason == ""
		if v.reason != "" {
			reasons = append(reasons, fmt.Sprintf("%s, %d octets: %s", v.test, v.size, v.reason))
		}
	}
	if measured || len(reasons) == 0 {
		return nil
	}
	return fault.New(fault.Testbed, "add --realtime, use a quieter machine with more cores, or give a lower --speed or --rate", "%s", reasons[0])
}
