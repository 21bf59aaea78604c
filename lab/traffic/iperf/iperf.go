// SPDX-License-Identifier: Apache-2.0

// Package iperf generates flows with iperf3, to check Weir's own generator.
//
// iperf3 has a control connection between client and server on the same path as the data: at a loss
// of 10 % it may fail or take many seconds, and the flow is then reported as failed. Its durations
// are whole seconds, it has no request/response traffic, and it reports neither segments sent nor
// loss events.
//
// It sets the congestion control after connect, so each connection begins with its host's default.
// If that is BBR, the kernel has already marked the socket as paced (bbr_init, sk_pacing_status)
// and keeps the mark. A flow with CUBIC is then a paced CUBIC: at 0.4 ms and 1 % loss this cost
// about 15 % of the goodput (docs/results/generators.md). To avoid it, give the sender's namespace
// a default that does not pace (net.ipv4.tcp_congestion_control), as package run does; reno is
// allowed in every namespace.
package iperf

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"time"

	"weir/internal/fault"
	"weir/internal/wait"
	"weir/kernel/congestion"
	"weir/lab/traffic"
)

const (
	program = "iperf3"
	// patience is the maximum time of iperf3 beyond the flow's: its control connection retransmits
	// on a lossy path.
	patience = 20 * time.Second
	// maxStreams is iperf3's own limit (MAX_STREAMS).
	maxStreams = 128
	// portTries bounds the tries of other ports after one was taken between choosing and using it.
	portTries = 3
)

// errTaken reports that another socket got the port first.
var errTaken = errors.New("port is taken")

// Generator runs iperf3. The zero value is ready and safe for concurrent use.
type Generator struct{}

var _ traffic.Generator = Generator{}

// Name returns "iperf3".
func (Generator) Name() string { return program }

// Check reports whether iperf3 is installed and can generate the flow.
func (Generator) Check(f traffic.Flow) error {
	if err := f.Validate(); err != nil {
		return err
	}
	if err := able(f); err != nil {
		return fault.New(fault.Usage, "Use --generator weir for this flow.", "flow %s: iperf3 %w", f.Name, err)
	}
	if _, err := exec.LookPath(program); err != nil {
		return fault.New(fault.Testbed, "Install it (apt-get install iperf3), or use --generator weir.", "find iperf3: %w", err)
	}
	if err := congestion.Check(f.Congestion); err != nil {
		return fmt.Errorf("flow %s: %w", f.Name, err)
	}
	return nil
}

// able rejects flows that iperf3 does not support.
func able(f traffic.Flow) error {
	switch {
	case f.Kind == traffic.Request:
		return errors.New("has no request/response traffic")
	case f.Kind == traffic.Transfers:
		return errors.New("has no transfers that come at random")
	case f.Bytes > 0:
		return errors.New("cannot stop each stream after a number of bytes")
	case f.Duration%time.Second != 0:
		return fmt.Errorf("runs whole seconds, not %s", f.Duration)
	case f.Streams > maxStreams:
		return fmt.Errorf("has at most %d streams, not %d", maxStreams, f.Streams)
	}
	return nil
}

// Run runs an iperf3 server and client for one flow. An error means that it could not begin, or
// that ctx has ended it; iperf3's own errors are in Result.Failed.
func (g Generator) Run(ctx context.Context, f traffic.Flow, from, to traffic.Endpoint) (traffic.Result, error) {
	result := traffic.Result{Flow: f, Generator: g.Name()}
	err := g.Check(f)
	for try := 1; err == nil; try++ {
		err = run(ctx, &result, from, to)
		if !errors.Is(err, errTaken) || try == portTries {
			break
		}
		err = nil
	}
	if err != nil {
		if stopped := ctx.Err(); stopped != nil { // of any part of it, including the server's start
			result.Failed, err = "stopped before its end", stopped
		}
		return result, fmt.Errorf("flow %s: %w", f.Name, err)
	}
	return result, nil
}

func run(ctx context.Context, result *traffic.Result, from, to traffic.Endpoint) error {
	f := result.Flow
	port, err := freePort(to)
	if err != nil {
		return err
	}
	limited, cancel := context.WithTimeout(ctx, f.Start+f.Duration+patience)
	defer cancel()
	server := start(limited, to, serverArguments(to, port)...)
	defer server.stop()
	if err := server.awaitListening(to, port); err != nil {
		return err
	}
	if err := wait.For(ctx, f.Start); err != nil {
		return err
	}
	client := start(limited, from, clientArguments(f, from, to, port)...)
	clientErr := client.wait()
	// A server ends by itself after its client, unless the client never reached it.
	server.expire(time.Second)
	serverErr := server.wait()
	failed := errors.Join(client.read(), server.read())
	fill(result, client.report, server.report)
	result.Failed = verdict(result, client, server, failed, errors.Join(clientErr, serverErr), limited.Err())
	return ctx.Err()
}

// verdict returns the cause of a broken flow: iperf3's own message first.
func verdict(result *traffic.Result, client, server *process, parse, ended, expired error) string {
	for _, p := range []*process{client, server} {
		if p.report != nil && p.report.Error != "" {
			return "iperf3: " + p.report.Error
		}
	}
	switch {
	case expired != nil:
		return fmt.Sprintf("iperf3 did not end within %s after the flow", patience)
	case parse != nil:
		return parse.Error()
	case ended != nil:
		return strings.ReplaceAll(ended.Error(), "\n", "; ")
	case len(result.Streams) != result.Flow.Streams:
		return fmt.Sprintf("iperf3 reports %d streams of %d", len(result.Streams), result.Flow.Streams)
	}
	return ""
}
