// SPDX-License-Identifier: Apache-2.0

// Package command generates flows by users' programs: a command at one end, and a server at the
// other if needed. Any program may send in its own way, so bytes are counted at the devices of the
// receiving host, which takes part in no other flow.
//
// /bin/sh runs the programs in the host's network namespace, in a folder that exists for the flow.
// At its end they are killed with all their children.
package command

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"time"

	"weir/internal/fault"
	"weir/internal/wait"
	"weir/lab/traffic"
)

const (
	shell = "/bin/sh"
	// sampling is the period of reading byte counters; bins are interpolated.
	sampling = 25 * time.Millisecond
	// lastOctets is the maximum time that data may be in flight after a command has ended.
	lastOctets = time.Second
	// listenWait is the maximum time until a server listens.
	listenWait = 20 * time.Second
)

// Generator runs programs. The zero value is ready and safe for concurrent use.
type Generator struct{}

var (
	_ traffic.Generator = Generator{}
	_ traffic.Preparer  = Generator{}
)

// Name returns "command".
func (Generator) Name() string { return "command" }

// plainWord matches a command's first word if it is simply the name of a program or builtin.
var plainWord = regexp.MustCompile(`^[A-Za-z0-9_./+-]+$`)

// Check reports whether the shell finds the programs at the start of the flow's lines.
func (Generator) Check(f traffic.Flow) error {
	if err := f.Validate(); err != nil {
		return err
	}
	for _, line := range []string{f.Command.Run, f.Command.Server} {
		words := strings.Fields(line)
		if len(words) == 0 || !plainWord.MatchString(words[0]) {
			continue
		}
		if err := exec.Command(shell, "-c", "command -v -- "+words[0]).Run(); err != nil {
			return fault.New(fault.Testbed, "install it, or write where it is", "flow %s: there is no program %s", f.Name, words[0])
		}
	}
	return nil
}

// Run prepares the flow and runs it.
func (g Generator) Run(ctx context.Context, f traffic.Flow, from, to traffic.Endpoint) (traffic.Result, error) {
	ready, err := g.Prepare(ctx, f, from, to)
	if err != nil {
		return traffic.Result{Flow: f, Generator: g.Name()}, err
	}
	defer ready.Close()
	return ready.Run(ctx)
}

// Prepare starts the flow's server, if it has one, and waits until it listens.
func (g Generator) Prepare(ctx context.Context, f traffic.Flow, from, to traffic.Endpoint) (traffic.Ready, error) {
	if err := g.Check(f); err != nil {
		return nil, err
	}
	r := &ready{flow: f, client: from, other: to, receiver: to, hosts: [2]string{f.From, f.To}}
	if f.Command.AtTo {
		r.client, r.other = to, from
		r.hosts = [2]string{f.To, f.From}
	}
	var err error
	if r.folder, err = os.MkdirTemp("", "weir-flow-"); err != nil {
		return nil, fmt.Errorf("flow %s: make its folder: %w", f.Name, err)
	}
	weir, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("flow %s: find this program: %w", f.Name, err)
	}
	r.environment = append(os.Environ(), "WEIR="+weir, "WEIR_FROM="+from.Address.String(), "WEIR_TO="+to.Address.String(),
		fmt.Sprintf("WEIR_PORT=%d", f.Command.Port), fmt.Sprintf("WEIR_SECONDS=%g", f.Duration.Seconds()))
	if f.Command.Server == "" {
		return r, nil
	}
	r.server = r.start(r.other, f.Command.Server)
	if err := r.server.awaitPort(ctx, r.other, f.Command.Port); err != nil {
		r.Close()
		return nil, fmt.Errorf("flow %s: %w", f.Name, err)
	}
	return r, nil
}

// ready is a flow with a listening server.
type ready struct {
	flow          traffic.Flow
	client, other traffic.Endpoint // endpoints of the command and of the server
	receiver      traffic.Endpoint
	hosts         [2]string // the names of client and other
	folder        string
	environment   []string
	server        *program // nil without one
	command       *program
	closed        bool
}

// Close ends the remaining programs and removes the flow's folder.
func (r *ready) Close() {
	if r.closed {
		return
	}
	r.closed = true
	for _, p := range []*program{r.command, r.server} {
		if p != nil {
			p.stop()
		}
	}
	_ = os.RemoveAll(r.folder)
}

// Run runs the command until it or the flow's time ends.
func (r *ready) Run(ctx context.Context) (traffic.Result, error) {
	result := traffic.Result{Flow: r.flow, Generator: Generator{}.Name()}
	if err := wait.For(ctx, r.flow.Start); err != nil {
		return result, fmt.Errorf("flow %s: %w", r.flow.Name, err)
	}
	count, err := newCounter(r.receiver.Namespace)
	if err != nil {
		return result, fmt.Errorf("flow %s: %w", r.flow.Name, err)
	}
	defer count.close()
	r.command = r.start(r.client, r.flow.Command.Run)
	took, err := r.follow(ctx, count)
	r.command.stop()
	if err == nil {
		err = count.fill(&result, r.flow, took)
	}
	var serverErr error
	if r.server != nil {
		serverErr = r.server.stop()
		result.Programs = append(result.Programs, r.server.report("server", r.hosts[1], r.flow.Command.Server))
	}
	result.Reported = r.command.output.rate()
	result.Programs = append(result.Programs, r.command.report("command", r.hosts[0], r.flow.Command.Run))
	switch {
	case ctx.Err() != nil:
		result.Failed = "stopped before its end"
		return result, fmt.Errorf("flow %s: %w", r.flow.Name, ctx.Err())
	case err != nil:
		return result, fmt.Errorf("flow %s: %w", r.flow.Name, err)
	}
	result.Failed = verdict(r.command.failure(), serverErr)
	return result, nil
}

// verdict returns the cause of a broken flow. A server's error counts only if the command has none.
func verdict(command, server error) string {
	var all []error
	if command != nil {
		all = append(all, fmt.Errorf("its command %w", command))
	}
	if server != nil {
		all = append(all, fmt.Errorf("its server %w", server))
	}
	if joined := errors.Join(all...); joined != nil {
		return strings.ReplaceAll(joined.Error(), "\n", "; ")
	}
	return ""
}

// follow counts until the command has ended and its data have arrived, or the flow's time is over.
// It returns the command's duration if it ended by itself, else 0.
func (r *ready) follow(ctx context.Context, count *counter) (took time.Duration, err error) {
	over := time.NewTimer(r.flow.Duration - time.Since(count.begin))
	defer over.Stop()
	tick := time.NewTicker(sampling)
	defer tick.Stop()
	ended := r.command.done
	for {
		select {
		case <-ctx.Done():
			return took, nil
		case <-over.C:
			return took, count.read()
		case <-ended:
			took, ended = time.Since(count.begin), nil
		case <-tick.C:
			if err := count.read(); err != nil {
				return took, err
			}
			if since := time.Since(count.begin) - took; took > 0 && (count.quiet() || since > lastOctets) {
				return took, nil
			}
		}
	}
}
