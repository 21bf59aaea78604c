// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"context"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"weir/cmd/weir/cli"
	"weir/cmd/weir/complete"
	"weir/core/engine"
	"weir/core/policy"
	"weir/core/prove"
	"weir/core/prove/station"
	"weir/internal/fault"
	"weir/kernel/probe"
)

// proveOptions are the flags of weir prove.
type proveOptions struct {
	scope, peer, listen, congestion string
	token, tokenFile                string
	duration, lengthen              time.Duration
	repetitions                     int
	seed                            uint64
	dryRun                          bool
	out, junit                      string
}

// maxProof limits the automatic duration of a measurement for rates too low for the default.
const maxProof = 10 * time.Second

// ProveCommand returns the command weir prove.
func ProveCommand(a *cli.App) *cobra.Command {
	o := proveOptions{duration: 2 * time.Second, repetitions: 5}
	command := &cobra.Command{
		Use:   "prove [POLICY]",
		Short: "Test whether the active policy has the configured effect, and try bypasses",
		Long: `Test whether the active policy has the configured effect on rates, classes and
congestion controls. Short TCP and UDP test flows run from inside each scope to a peer,
over IPv4 and IPv6, and the command compares the received traffic with the policy. To
test a limit, it sends TCP at full speed and UDP above the rate. It first measures each
path outside all scopes: if a path carries less than the limit, the result is unknown.

The command then tries to bypass each scope, with sockets that were opened earlier,
tunnels, loopback, GSO packets, and other network namespaces. It also tests the sections
of the policy. The fast path must forward as the kernel would. Borders must mark and
translate DSCPs. While less than best effort fills a link, the link must not lose or
reorder packets of other classes; this test takes two seconds per link, and no switch or
neighbour forwards its packets.

The peer is a process in its own network namespace, reached over a veth pair with
addresses of the benchmark ranges (198.18.0.0/15, 2001:2::/48), or with --peer a remote
"weir prove --listen". For an interface scope, the flows are redirected to the peer at
that interface, and no packet is sent over its link. For a netns scope, the namespace
gets a veth pair to the peer. The command only adds objects to the host, and removes
them at the end. The next run removes the leftovers of a killed run.

The check of a rate passes if the 95 % confidence interval of the mean is within 98 and
101 % of the rate, and if few packets are lost. TCP may retransmit at most 1 % of its
bytes, at most 0.1 % of small packets may be lost, and at most 1 % of the datagrams of
QUIC flows. QUIC flows and short transfers must also reach nine tenths of the possible
rate. With --repetitions 1 there is no interval: the single value decides, which proves
little.

The exit status is 0 if all checks pass, 1 if a check fails or traffic bypasses a scope,
and 3 if a result is unknown or nothing could be tested.`,
		Example: `  sudo weir prove
  sudo weir prove policy.yaml              also checks that this policy is active
  sudo weir prove --scope backups --duration 5s --out proof
  sudo weir prove --dry-run                list the test flows and their paths
  weir prove --listen 192.0.2.9:5201       at the far end
  sudo weir prove --peer 192.0.2.9:5201 --token-file FILE`,
		Args: cobra.MaximumNArgs(1), ValidArgsFunction: complete.Policy,
		RunE: func(command *cobra.Command, args []string) error {
			if o.listen != "" {
				return proveListen(a, command, args, o)
			}
			if !command.Flags().Changed("duration") {
				o.lengthen = maxProof
			}
			return runProof(command.Context(), a, args, o)
		},
	}
	flags := command.Flags()
	flags.StringVar(&o.scope, "scope", "", "test only this scope")
	flags.DurationVar(&o.duration, "duration", o.duration, "duration of each measurement (default: 2s, longer for low rates)")
	flags.IntVar(&o.repetitions, "repetitions", o.repetitions, "number of measurements of each check and path")
	flags.StringVar(&o.congestion, "congestion", "", "TCP congestion control of the test flows (default: that of the host; with the local peer a loss-based one)")
	flags.Uint64Var(&o.seed, "seed", 1, "seed of the order of measurements")
	flags.StringVar(&o.peer, "peer", "", "address and port of a remote 'weir prove --listen'")
	flags.StringVar(&o.listen, "listen", "", "run as the peer on this TCP and UDP address and port, until stopped")
	flags.StringVar(&o.token, "token", "", "shared secret; every user of this host can read it in the process list, so prefer --token-file")
	flags.StringVar(&o.tokenFile, "token-file", "", "file with the shared secret (default: the variable WEIR_TOKEN; --listen without a secret creates and prints one)")
	flags.BoolVar(&o.dryRun, "dry-run", false, "list the tests without running them")
	flags.StringVar(&o.out, "out", "", "folder for the evidence bundle")
	flags.StringVar(&o.junit, "junit", "", "also write the verdicts to this file, as JUnit test cases")
	return command
}

func (o proveOptions) check() error {
	switch {
	case o.duration < 100*time.Millisecond || o.duration > 10*time.Minute:
		return fault.New(fault.Usage, "write --duration 2s", "--duration %s is outside 100ms to 10m", o.duration)
	case o.repetitions < 1 || o.repetitions > 1000:
		return fault.New(fault.Usage, "write --repetitions 5", "--repetitions %d is outside 1 to 1000", o.repetitions)
	case o.token != "" && o.tokenFile != "":
		return fault.New(fault.Usage, "give one of them", "--token and --token-file are two secrets")
	case o.token != "" && o.peer == "" && o.listen == "":
		return fault.New(fault.Usage, "give it with --peer or --listen", "--token alone")
	case o.tokenFile != "" && o.peer == "" && o.listen == "":
		return fault.New(fault.Usage, "give it with --peer or --listen", "--token-file alone")
	}
	if o.congestion != "" && o.listen == "" {
		if err := probe.CongestionControl(o.congestion); err != nil {
			return fault.New(fault.Usage, "name one that 'weir cc list' shows", "--congestion %s: %w", o.congestion, err)
		}
	}
	if o.out != "" {
		if err := cli.CheckOut(o.out); err != nil {
			return err
		}
	}
	if o.junit != "" {
		return cli.CheckFile("--junit", o.junit)
	}
	return nil
}

// proveListen serves as the peer for `weir prove --peer` on another host, until it is stopped.
func proveListen(a *cli.App, command *cobra.Command, args []string, o proveOptions) error {
	for _, other := range []string{"peer", "scope", "dry-run", "out", "junit", "duration", "repetitions", "seed", "congestion"} {
		if command.Flags().Changed(other) || len(args) > 0 {
			return fault.New(fault.Usage, "write: weir prove --listen ADDRESS:PORT [--token-file FILE]", "--listen accepts no other options: the other end determines the traffic")
		}
	}
	if o.token != "" && o.tokenFile != "" {
		return o.check()
	}
	token, err := cli.ReadToken(o.token, o.tokenFile)
	if err != nil {
		return err
	}
	return a.ServeStation(command.Context(), o.listen, token, "peer", "weir prove --peer")
}

// runProof runs the tests and prints the results.
func runProof(ctx context.Context, a *cli.App, args []string, o proveOptions) error {
	options, err := checkOptions(ctx, a, args, o)
	if err != nil {
		return err
	}
	if o.dryRun {
		return printPlan(a, options)
	}
	if err := prove.Sweep(options.Engine.CgroupRoot); err != nil {
		return err
	}
	if err := warnOfSkipped(a, options); err != nil {
		return err
	}
	result, err := prove.Run(ctx, options)
	if err != nil {
		return cli.Stopped(ctx, err)
	}
	if err := printProof(a, result, options, o); err != nil {
		return err
	}
	return proven(result)
}

// warnOfSkipped lists untestable promises before the first measurement, each reason once.
func warnOfSkipped(a *cli.App, options prove.Options) error {
	tests, err := options.Plan(prove.IPv6())
	if err != nil {
		return err
	}
	var reasons []string
	for _, t := range tests {
		if text := fmt.Sprintf("scope %s cannot be tested: %s", t.Scope.Name, t.Reason); t.Skip == prove.CannotSay && !slices.Contains(reasons, text) {
			reasons = append(reasons, text)
		}
	}
	a.Warn(reasons)
	return nil
}

// checkOptions checks flags, privilege, policy and peer.
func checkOptions(ctx context.Context, a *cli.App, args []string, o proveOptions) (options prove.Options, err error) {
	if err := o.check(); err != nil {
		return options, err
	}
	if os.Geteuid() != 0 {
		return options, fault.New(fault.Permission, "run it as root: sudo weir prove",
			"prove the policy: cgroups, namespaces and counters need root (CAP_SYS_ADMIN, CAP_NET_ADMIN and CAP_BPF)")
	}
	e, err := a.Engine()
	if err != nil {
		return options, err
	}
	options = prove.Options{Engine: e, Scope: o.scope, Duration: o.duration, Lengthen: o.lengthen, Repetitions: o.repetitions, Seed: o.seed,
		Congestion: o.congestion, Report: func(what string, left time.Duration) {
			a.Say("%s: all ends in about %s, at %s", what, left.Round(time.Second), time.Now().Add(left).Format(time.TimeOnly))
		}}
	token, err := cli.ReadToken(o.token, o.tokenFile)
	if err != nil {
		return options, err
	}
	if o.peer != "" {
		if options.Peer, err = station.Resolve(ctx, o.peer, token); err != nil {
			return options, err
		}
	}
	if len(args) > 0 {
		err = isApplied(a, e, args[0])
	}
	return options, err
}

// isApplied returns an error with the difference of the policy file to the active policy.
func isApplied(a *cli.App, e *engine.Engine, file string) error {
	p, err := load(a, e, file)
	if err != nil {
		return err
	}
	plan, err := e.Plan(p)
	if err != nil {
		return err
	}
	if what := differs(plan); what != "" {
		return fault.New(fault.Failed, "see the difference with: weir plan "+file, "%s is not the active policy: it would %s", file, what)
	}
	return nil
}

// differs describes the first change of a plan; "" if there is none.
func differs(plan engine.Outcome) string {
	for _, step := range plan.Steps {
		if step.Action != policy.Keep && step.Action != policy.Rebind {
			return fmt.Sprintf("%s the scope %s", step.Action, step.Scope.Name)
		}
	}
	for _, step := range plan.Host {
		if step.Action != policy.Keep {
			return fmt.Sprintf("%s %s", step.Action, step.Item.Name)
		}
	}
	return ""
}

// proven is the command's error.
func proven(r *prove.Result) error {
	switch open, untested := r.Open(), r.Untested(); {
	case r.Failed():
		return cli.ErrVerdict
	case r.Stopped:
		return fault.New(fault.Failed, "let it run to its end for the whole result", "stopped")
	case untested != "":
		return fault.New(fault.Testbed, "prove scopes with their own traffic that are not in shadow: 'weir prove --dry-run' lists the possible tests", "nothing was tested: %s", untested)
	case open != "":
		return fault.New(fault.Testbed, "see the reason of each", "cannot say whether all promises hold: %s", open)
	}
	return nil
}
