// SPDX-License-Identifier: Apache-2.0

package tester

import (
	"context"
	"errors"
	"time"

	"github.com/spf13/cobra"

	"weir/cmd/weir/cli"
	"weir/internal/fault"
	"weir/tester/session"
	"weir/tester/spec"
)

func newRunCommand(a *cli.App) *cobra.Command {
	var o testerOptions
	var f testerFlags
	command := &cobra.Command{
		Use:   "run [SPEC]",
		Short: "Send and receive in one process, and judge the path between",
		Long: `Send and receive in one process, and test the path between.

The two ports are devices of this machine, often in two network namespaces. The
specification is a YAML file (docs/formats/tester.md); without one, flags
describe a single stream.

The exit status is 0 if every expectation holds, 1 if one does not or a stream
never arrived, and 3 if an expectation could not be measured or this machine could
not send the requested frames.`,
		Example: `  sudo weir tester run spec.yaml --out results/today
  sudo weir tester run --from left:tg0 --to right:tg1 --rate 100Mbit --size imix --duration 5s
  sudo weir tester run spec.yaml --capture errors.pcapng --format json`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(command *cobra.Command, args []string) error {
			s, err := f.specification(args, side{sends: true, receives: true})
			if err != nil {
				return err
			}
			account, err := test(command.Context(), a, s, o, side{sends: true, receives: true}, 0)
			if err != nil {
				return err
			}
			return tested(a, account, s, o)
		},
	}
	o.addFlags(command.Flags())
	o.addReceiving(command.Flags())
	f.addSending(command.Flags())
	f.addTo(command.Flags())
	return command
}

func newSendCommand(a *cli.App) *cobra.Command {
	var o testerOptions
	var f testerFlags
	command := &cobra.Command{
		Use:   "send [SPEC]",
		Short: "Send the streams of a specification; another process receives them",
		Long: `Send the streams of a specification; another process receives them.

Start 'weir tester receive' first. With --format json sender and receiver each print an
account, the counts of their frames. 'weir tester join SENDER.json RECEIVER.json'
computes loss and relative delay from both.

The generator stops by its time and frame limits even if this process is killed.`,
		Example: `  sudo weir tester send spec.yaml --format json > sender.json
  sudo weir tester send --from eth2 --destination 198.19.0.1 --rate 10kpps --duration 10s`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(command *cobra.Command, args []string) error {
			s, err := f.specification(args, side{sends: true})
			if err != nil {
				return err
			}
			account, err := test(command.Context(), a, s, o, side{sends: true}, 0)
			if err != nil {
				return err
			}
			return tested(a, account, s, o)
		},
	}
	o.addFlags(command.Flags())
	f.addSending(command.Flags())
	return command
}

func newReceiveCommand(a *cli.App) *cobra.Command {
	var o testerOptions
	var f testerFlags
	var listen time.Duration
	command := &cobra.Command{
		Use:   "receive [SPEC]",
		Short: "Judge the frames that another process sends, until interrupted",
		Example: `  sudo weir tester receive spec.yaml --listen 15s --format json > receiver.json
  sudo weir tester receive --to right:tg1 --streams 4
  sudo weir tester receive spec.yaml --clock synchronised`,
		Long: `Check the frames of another process until interrupted. The command reports when it is
ready.

It attaches an XDP program to the device. The program counts and drops the test frames;
all other traffic passes. With synchronised clocks on both machines and --clock
synchronised, delays are one-way; otherwise they are relative to the smallest one.`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(command *cobra.Command, args []string) error {
			s, err := f.specification(args, side{receives: true})
			if err != nil {
				return err
			}
			account, err := test(command.Context(), a, s, o, side{receives: true}, listen)
			if err != nil {
				return err
			}
			return tested(a, account, s, o)
		},
	}
	o.addFlags(command.Flags())
	o.addReceiving(command.Flags())
	f.addTo(command.Flags())
	f.addReceiving(command.Flags())
	command.Flags().DurationVar(&listen, "listen", 0, "how long to receive (default: until interrupted)")
	return command
}

// test runs a specification with the ends that are here.
func test(ctx context.Context, a *cli.App, s *spec.Spec, o testerOptions, here side, listen time.Duration) (account session.Account, err error) {
	if err := privileged(); err != nil {
		return account, err
	}
	if err := errors.Join(o.prepareOut(), o.realtime.apply()); err != nil {
		return account, err
	}
	if listen < 0 {
		return account, fault.New(fault.Usage, "give a positive time", "--listen %s is negative", listen)
	}
	ports := openPorts(s)
	defer func() { err = errors.Join(err, ports.close()) }()
	config, err := ports.config(here)
	if err != nil {
		return account, err
	}
	if config.Clock, err = o.clockOf(s.Synchronised); err != nil {
		return account, err
	}
	if here.sends && here.receives && o.clock == "" {
		config.Clock = session.OneWay
	}
	metrics, err := serveMetrics(ctx, o.metrics)
	if err != nil {
		return account, err
	}
	defer func() { err = errors.Join(err, metrics.close()) }()
	live := newTesterLive(a)
	config.IKnow, config.Listen, config.Capture = o.iKnow, listen, o.captured(s)
	if !here.sends {
		config.Ready = func() { a.Say("ready: frames that arrive from now on are counted") }
	}
	config.Progress = func(account session.Account) {
		live.show(account)
		metrics.show(account)
	}
	account, err = session.Run(ctx, config)
	live.end()
	return account, err
}
