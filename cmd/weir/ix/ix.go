// SPDX-License-Identifier: Apache-2.0

// Package ix is the command group weir ix: paths of an internet exchange, at most N per member.
package ix

import (
	"fmt"

	"github.com/spf13/cobra"

	"weir/cmd/weir/cli"
	"weir/cmd/weir/complete"
	"weir/internal/fault"
	"weir/ix/config"
	"weir/ix/plan"
)

// Command returns the command weir ix.
func Command(a *cli.App) *cobra.Command {
	command := &cobra.Command{
		Use:   "ix",
		Short: "Serve the paths of an exchange: at most N per member, spread over the sponsors",
		Long: `Plan and serve the paths of an exchange. Sponsors send full tables to its route server,
BIRD; each member needs a few good and diverse paths per prefix, spread over the sponsors'
ports. 'serve' is a path server beside BIRD. 'plan' and 'explain' read an exchange file and
tables in MRT format; they change nothing and need no running server.`,
		Example: `  weir ix check exchange.yaml                             all mistakes of the file
  weir ix plan exchange.yaml --rib rib.mrt.bz2            paths of members, load of ports
  weir ix explain exchange.yaml 192.0.2.1 --rib rib.mrt   the order of the paths, and why
  weir ix bird exchange.yaml                              BIRD's part
  weir ix serve exchange.yaml                             the path server
  weir ix status                                          its sessions`,
	}
	command.AddCommand(newCheckCommand(a), newPlanCommand(a), newExplainCommand(a), newJoinCommand(a), newServeCommand(a), newBirdCommand(a), newStatusCommand(a), newDrainCommand(a), newStopCommand(a))
	return command
}

// source holds the flags of commands that read a table.
type source struct {
	ribs    []string
	partial bool
}

func (s *source) flags(command *cobra.Command) {
	command.Flags().StringArrayVar(&s.ribs, "rib", nil, "table in MRT format, plain, gz, bz2 or zst; repeat it for several files; default: feed.rib of FILE")
	command.Flags().BoolVar(&s.partial, "partial", false, "use the paths before a fault of a table")
}

// load reads the exchange file and the tables.
func (s *source) load(a *cli.App, file string) (*config.Exchange, *plan.Table, error) {
	e, err := config.Load(file)
	if err != nil {
		return nil, nil, err
	}
	ribs := s.ribs
	if len(ribs) == 0 && e.Feed.RIB != "" {
		ribs = []string{e.Feed.RIB}
	}
	if len(ribs) == 0 {
		return nil, nil, fault.New(fault.Usage, "write --rib FILE; BIRD's protocol mrt writes such files", "no table is given")
	}
	t, err := plan.Load(e, ribs, s.partial)
	if err != nil {
		return nil, nil, err
	}
	for _, note := range t.Notes {
		a.Say("Warning: %s", note)
	}
	if note := t.Unplaced.Describe(); note != "" {
		a.Say("Left out: %s", note)
	}
	if t.RIB.Stats().Paths == 0 {
		return nil, nil, fault.New(fault.Usage, "write the next hops of the table as addresses of ports", "no path of the table has a port's address as its next hop")
	}
	return e, t, nil
}

// checked is the document of weir ix check --format json.
type checked struct {
	Format   string   `json:"format"`
	Name     string   `json:"name"`
	Sponsors int      `json:"sponsors"`
	Ports    int      `json:"ports"`
	Members  int      `json:"members"`
	Notes    []string `json:"notes"`
}

func newCheckCommand(a *cli.App) *cobra.Command {
	return &cobra.Command{
		Use:   "check FILE",
		Short: "Check an exchange file",
		Long: `Check an exchange file: keys, addresses, rates, numbers of paths, and the names of members
and sponsors that it refers to. All mistakes are reported at once, each with its place.`,
		Example: "  weir ix check exchange.yaml",
		Args:    cobra.ExactArgs(1), ValidArgsFunction: complete.Policy,
		RunE: func(_ *cobra.Command, args []string) error {
			e, err := config.Load(args[0])
			if err != nil {
				return err
			}
			c := checked{"weir-ix-check/1", e.Name, len(e.Sponsors), len(e.Ports()), len(e.Members), cli.OrEmpty(e.Notes())}
			if a.Format == "json" {
				return a.JSON(c)
			}
			text := fmt.Sprintf("%s is valid: %s, %s, %s\n", args[0], cli.Plural(c.Sponsors, "sponsor"), cli.Plural(c.Ports, "port"), cli.Plural(c.Members, "member"))
			for _, note := range c.Notes {
				text += "Note: " + note + "\n"
			}
			_, err = fmt.Fprint(a.Stdout, text)
			return err
		},
	}
}
