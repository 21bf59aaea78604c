// SPDX-License-Identifier: Apache-2.0

package tester

import (
	"encoding/json"

	"github.com/spf13/cobra"

	"weir/cmd/weir/cli"
	"weir/internal/fault"
	"weir/internal/infile"
	"weir/tester/session"
	"weir/tester/spec"
)

func newJoinCommand(a *cli.App) *cobra.Command {
	var o testerOptions
	var specification string
	command := &cobra.Command{
		Use:   "join SENDER.json RECEIVER.json",
		Short: "Join the accounts of two machines into loss and delay",
		Long: `Compute loss and delay from the accounts of two machines.

'weir tester send' and 'weir tester receive' print accounts with --format json. Frames
lost after the last received one are visible only in both together. Without synchronised
clocks the delays are relative to the smallest one.`,
		Example: `  weir tester join sender.json receiver.json
  weir tester join sender.json receiver.json --spec spec.yaml --out results/path`,
		Args: cobra.ExactArgs(2),
		RunE: func(_ *cobra.Command, args []string) error {
			if err := o.prepareOut(); err != nil {
				return err
			}
			s := &spec.Spec{Name: "join"}
			if specification != "" {
				read, err := spec.Read(specification)
				if err != nil {
					return err
				}
				s = read
			}
			account, err := joinAccounts(args[0], args[1], o, s.Synchronised)
			if err != nil {
				return err
			}
			return tested(a, account, s, o)
		},
	}
	command.Flags().StringVar(&o.out, "out", "", "folder for an evidence bundle: tables, CSV, histograms, report.html")
	command.Flags().StringVar(&specification, "spec", "", "specification with the expectations to judge")
	o.addClock(command.Flags())
	return command
}

func joinAccounts(sender, receiver string, o testerOptions, synchronised bool) (session.Account, error) {
	clock, err := o.clockOf(synchronised)
	if err != nil {
		return session.Account{}, err
	}
	sent, err := readAccount(sender)
	if err != nil {
		return session.Account{}, err
	}
	received, err := readAccount(receiver)
	if err != nil {
		return session.Account{}, err
	}
	return session.Join(sent, received, clock)
}

// accountFile holds counters and histograms per stream, 300 bytes to 40 KB each.
var accountFile = infile.Kind{What: "account", Most: 64 << 20, Name: "name the files that --format json was written to",
	Larger: "name the output of 'weir tester send' or 'receive' with --format json"}

func readAccount(path string) (session.Account, error) {
	var account session.Account
	text, err := accountFile.Read(path)
	if err != nil {
		return account, err
	}
	if err := json.Unmarshal(text, &account); err != nil {
		return account, fault.New(fault.Usage, "give the output of 'weir tester send' or 'receive' with --format json", "read account %s: %w", path, err)
	}
	return account, nil
}
