// SPDX-License-Identifier: Apache-2.0

// Package native is Weir's own traffic generator. Both ends of a flow live in this process, so they
// need no control connection: the receiver's counts are read directly, and a lossy path delays only
// the flow itself.
//
// A socket stays in the namespace in which it was made, so ordinary goroutines do the work.
// Pitfalls:
//
//   - Every flow ends at its duration, in any state. TCP connections are closed with a RST, so that
//     the next run sees no retransmissions of this one; frames that a link still holds are rejected
//     on arrival.
//   - The handshake is part of the flow. If SYNs are lost, a second or more of the duration passes
//     before data flow.
//   - Both ends share the CPUs with the emulator. Receivers discard payload inside the kernel
//     (MSG_TRUNC).
package native

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"weir/kernel/congestion"
	"weir/lab/traffic"
)

// Generator generates flows. Make one with New and use it for all flows of a run: exact loss events
// depend on the flows that send from one namespace at the same time, and the generator records
// those. It is safe for concurrent use.
type Generator struct {
	senders senders
}

var _ traffic.Generator = (*Generator)(nil)

// New returns a generator.
func New() *Generator { return &Generator{} }

// Name returns "weir".
func (g *Generator) Name() string { return "weir" }

// Check validates the flow and reports whether this kernel has its congestion control.
func (g *Generator) Check(f traffic.Flow) error {
	if err := f.Validate(); err != nil {
		return err
	}
	if err := congestion.Check(f.Congestion); err != nil {
		return fmt.Errorf("flow %s: %w", f.Name, err)
	}
	return nil
}

// Run generates one flow. An error means that it could not begin or, with the result so far, that
// ctx has ended it; later failures are in Result.Failed.
func (g *Generator) Run(ctx context.Context, f traffic.Flow, from, to traffic.Endpoint) (traffic.Result, error) {
	result := traffic.Result{Flow: f, Generator: g.Name()}
	if err := f.Validate(); err != nil {
		return result, err
	}
	run := g.runTCP
	switch f.Kind {
	case traffic.Datagram:
		run = g.runDatagrams
	case traffic.Transfers:
		run = g.runTransfers
	}
	err := run(ctx, &result, from, to)
	if err != nil {
		return result, fmt.Errorf("flow %s: %w", f.Name, err)
	}
	for i := range result.Streams {
		s := &result.Streams[i]
		over := f.Duration
		if s.Finished > 0 {
			over = s.Finished
		}
		s.Goodput = rate(s.ReceivedBytes, over)
		result.Goodput += s.Goodput
	}
	if err := ctx.Err(); err != nil {
		result.Failed = "stopped before its end"
		return result, fmt.Errorf("flow %s: %w", f.Name, err)
	}
	return result, nil
}

// within returns the context of a flow of length d; 0 has no end.
func within(ctx context.Context, begin time.Time, d time.Duration) (context.Context, context.CancelFunc) {
	if d == 0 {
		return context.WithCancel(ctx)
	}
	return context.WithDeadline(ctx, begin.Add(d))
}

// summary returns the first error, and how many of the n parts failed.
func summary(errs []error) string {
	joined := errors.Join(errs...)
	if joined == nil {
		return ""
	}
	lines := strings.Split(joined.Error(), "\n")
	if len(lines) == 1 || len(errs) == 1 {
		return lines[0]
	}
	return fmt.Sprintf("%s (and %d more of %d)", lines[0], len(lines)-1, len(errs))
}
