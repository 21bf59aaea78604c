// SPDX-License-Identifier: Apache-2.0

// Package offload is the command group weir offload, which plans and verifies fast paths.
package offload

import (
	"compress/gzip"
	"fmt"
	"io"
	"math/rand/v2"
	"net/netip"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"weir/cmd/weir/cli"
	"weir/cmd/weir/complete"
	"weir/internal/fault"
	"weir/internal/infile"
	"weir/modules/offload"
	"weir/modules/offload/state"
	"weir/record"
)

// Command returns the command weir offload.
func Command(a *cli.App) *cobra.Command {
	command := &cobra.Command{
		Use:   "offload",
		Short: "Inspect and verify the fast path of a router",
		Long: `Inspect and verify the fast path of a router. A policy's section offload makes XDP
or tc flower forward packets as the kernel does. "weir apply" and "weir daemon"
activate it.`,
		Example: `  sudo weir offload dump router.gz
  weir offload plan policy.yaml --state router.gz
  sudo weir offload verify policy.yaml`,
	}
	command.AddCommand(newOffloadDumpCommand(a), newOffloadPlanCommand(a), newRulesCommand(a), newOffloadVerifyCommand(a))
	return command
}

func newOffloadDumpCommand(a *cli.App) *cobra.Command {
	return &cobra.Command{
		Use:   "dump [FILE]",
		Short: "Write the forwarding state of this router to a file",
		Long: `Write the forwarding state of this router (links, addresses, neighbours, routing
tables, rules, packet filters) to a file that "weir offload plan --state" reads on any
machine, or to standard output. A file name that ends with .gz is compressed.
docs/formats/offload.md describes the format.`,
		Example: `  sudo weir offload dump router.gz
  weir offload dump | grep '^link'`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			s, err := offload.ReadState()
			if err != nil {
				return err
			}
			if len(args) == 0 {
				return s.Write(a.Stdout)
			}
			if err := writeState(args[0], s); err != nil {
				return err
			}
			a.Say("%d routes, %d links and %d neighbours are in %s", s.Count(), len(s.Links), len(s.Neighbors), args[0])
			return nil
		},
	}
}

func writeState(name string, s *state.State) (err error) {
	file, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_TRUNC|unix.O_NONBLOCK|unix.O_NOCTTY, 0o600) // a FIFO without a reader is an error
	if err != nil {
		return fault.Wrap(fmt.Errorf("write state: %w", err), fault.Usage, "name a file that can be written")
	}
	defer func() {
		if e := file.Close(); err == nil {
			err = e
		}
	}()
	if !strings.HasSuffix(name, ".gz") {
		return s.Write(file)
	}
	z := gzip.NewWriter(file)
	if err := s.Write(z); err != nil {
		return err
	}
	return z.Close()
}

var stateFile = infile.Kind{What: "state", Name: "name a file written by weir offload dump"}

func readState(name string) (*state.State, error) {
	file, err := stateFile.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	if !strings.HasSuffix(name, ".gz") {
		return state.Read(file, name)
	}
	z, err := gzip.NewReader(file)
	if err != nil {
		return nil, fault.Wrap(fmt.Errorf("read state: %s: %w", name, err), fault.Usage, "rename the file: .gz marks a gzip file")
	}
	return state.Read(io.LimitReader(z, 4<<30), name)
}

// offloadOf returns the offload section of a policy.
func offloadOf(a *cli.App, args []string) (*offload.Treatment, error) {
	e, err := a.Engine()
	if err != nil {
		return nil, err
	}
	p, err := e.Language.Load(cli.PolicyFile(args))
	if err != nil {
		return nil, err
	}
	for _, item := range p.Host {
		if t, ok := item.Treatment.(*offload.Treatment); ok {
			return t, nil
		}
	}
	return nil, fault.New(fault.Usage, "add one, as offload: {from: [eth0, eth1]}; docs/formats/policy.md describes it", "%s has no section offload", cli.PolicyFile(args))
}

func newOffloadPlanCommand(a *cli.App) *cobra.Command {
	var from, traffic string
	var prove, rules bool
	command := &cobra.Command{
		Use:   "plan [POLICY]",
		Short: "Show which routes would be offloaded, and why others would not",
		Long: `Show which routes would be offloaded, and why others would not, on this router or,
with --state, on the router of a file written by "weir offload dump". The command changes
nothing. If the policy has a budget, the busiest routes are offloaded. The traffic of
routes is known from samples of the active fast path on this router or, with --traffic,
from a file with the packets per destination, for example from sFlow or NetFlow. --prove
compares the plan with an independent simulation of the kernel's routing, at and next to
the first and last address of every prefix.`,
		Example: `  weir offload plan policy.yaml --state router.gz --prove
  weir offload plan policy.yaml --state router.gz --rules
  weir offload plan policy.yaml --state router.gz --traffic packets.txt`,
		Args: cobra.MaximumNArgs(1), ValidArgsFunction: complete.Policy,
		RunE: func(_ *cobra.Command, args []string) error {
			t, err := offloadOf(a, args)
			if err != nil {
				return err
			}
			var s *state.State
			if from == "" {
				s, err = offload.ReadState()
			} else {
				s, err = readState(from)
			}
			if err != nil {
				return err
			}
			counted, err := counted(a, traffic, from)
			if err != nil {
				return err
			}
			summary, err := offload.Summarize(t, s, counted, rules, prove)
			if err != nil {
				return err
			}
			return offloadSummary(a, summary)
		},
	}
	command.Flags().StringVar(&from, "state", "", "state file of another router")
	command.Flags().StringVar(&traffic, "traffic", "", "file of packets per destination for a budget, with lines such as: 198.51.100.7 1200")
	command.Flags().BoolVar(&prove, "prove", false, "compare with the kernel's routing at every boundary; exit with 1 on a difference")
	command.Flags().BoolVar(&rules, "rules", false, "list the rules, aggregated")
	return command
}

var trafficFile = infile.Kind{What: "traffic", Name: "name a file with lines such as 198.51.100.7 1200"}

// counted returns the traffic for a budget: from a file, or from this host unless the state is from
// another host.
func counted(a *cli.App, traffic, state string) (map[netip.Addr]uint64, error) {
	if traffic == "" {
		if state != "" {
			return nil, nil
		}
		e, err := a.Engine()
		if err != nil {
			return nil, err
		}
		return offload.CountedTraffic(offload.Pins(e.PinDir))
	}
	file, err := trafficFile.Open(traffic)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	return offload.ReadTraffic(file, traffic)
}

func offloadSummary(a *cli.App, s offload.Summary) error {
	if a.Format == "json" {
		if err := a.JSON(s); err != nil {
			return err
		}
	} else {
		table := record.Table{Title: "Plan of the fast path", Columns: []string{"", "routes"}, Note: s.Words()}
		for _, line := range s.Lines() {
			table.Rows = append(table.Rows, []string{line.What, fmt.Sprint(line.Routes)})
		}
		if err := a.Table(table); err != nil {
			return err
		}
		for _, r := range s.Rules {
			fmt.Fprintf(a.Stdout, "%s %s\n", r.To, r.Hops)
		}
	}
	if len(s.Differences) > 0 {
		return cli.ErrVerdict
	}
	return nil
}

func newOffloadVerifyCommand(a *cli.App) *cobra.Command {
	var o offload.Verification
	command := &cobra.Command{
		Use:   "verify [POLICY]",
		Short: "Compare the active fast path with the kernel's routing",
		Long: `Compare the active fast path with the kernel's routing. The table is compared at and next
to the first and last address of every prefix, and at random addresses. The program is
compared with test runs. If packets would bypass a packet filter, an IPsec policy or NAT,
that is a difference too. The command sends no packets. If a difference persists, it
prints the difference with an example packet, and the exit status is 1.`,
		Example: `  sudo weir offload verify policy.yaml
  sudo weir offload verify --random 1000000 --packets 100000`,
		Args: cobra.MaximumNArgs(1), ValidArgsFunction: complete.Policy,
		RunE: func(_ *cobra.Command, args []string) error {
			t, err := offloadOf(a, args)
			if err != nil {
				return err
			}
			e, err := a.Engine()
			if err != nil {
				return err
			}
			o.Treatment, o.Pins = t, offload.Pins(e.PinDir)
			v, err := o.Run()
			if err != nil {
				return fault.Wrap(err, fault.Failed, "apply a policy with a section offload: weir apply, or weir daemon")
			}
			return offloadVerdict(a, v)
		},
	}
	command.Flags().IntVar(&o.Random, "random", 100_000, "number of random addresses, in addition to all boundaries")
	command.Flags().IntVar(&o.Packets, "packets", 10_000, "number of test runs of the program")
	command.Flags().Uint64Var(&o.Seed, "seed", rand.Uint64(), "seed of the random addresses")
	return command
}

func offloadVerdict(a *cli.App, v offload.Verdict) error {
	if a.Format == "json" {
		if err := a.JSON(v.Document()); err != nil {
			return err
		}
	} else {
		verdict := "holds: the fast path forwards as the kernel would"
		switch {
		case v.Expired:
			verdict = "does not hold: the lease has expired without a daemon, so the kernel forwards all packets; run weir daemon"
		case !v.Holds():
			verdict = "does not hold"
		}
		table := record.Table{Title: "Verification of the fast path", Columns: []string{"", "checked", "forwarded"}, Note: verdict,
			Rows: [][]string{{"addresses in the table", fmt.Sprint(v.Addresses), fmt.Sprint(v.Forwarded)}, {"test runs of the program", fmt.Sprint(v.Packets), fmt.Sprint(v.Sent)}}}
		if err := a.Table(table); err != nil {
			return err
		}
		for _, line := range slices.Concat(v.Document().Differences, v.Left) {
			fmt.Fprintln(a.Stdout, line)
		}
	}
	if !v.Holds() {
		return cli.ErrVerdict
	}
	return nil
}
