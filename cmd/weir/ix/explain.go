// SPDX-License-Identifier: Apache-2.0

package ix

import (
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"weir/cmd/weir/cli"
	"weir/cmd/weir/complete"
	"weir/ix/plan"
	"weir/record"
)

func newExplainCommand(a *cli.App) *cobra.Command {
	var s source
	command := &cobra.Command{
		Use:   "explain FILE PREFIX|ADDRESS [MEMBER]",
		Short: "Show every path to a prefix, its position and the reason",
		Long: `Show every path to a prefix or to the prefix of an address, in the order of the choice, with
the reason of its position. The first N paths are sent. With MEMBER the order is that of
the member: its place, its 'without', and the sponsors' 'only' count.`,
		Example: `  weir ix explain exchange.yaml 192.0.2.0/24 --rib rib.mrt.bz2
  weir ix explain exchange.yaml 192.0.2.1 club --rib rib.mrt.bz2`,
		Args: cobra.RangeArgs(2, 3), ValidArgsFunction: complete.Policy,
		RunE: func(_ *cobra.Command, args []string) error {
			member := ""
			if len(args) > 2 {
				member = args[2]
			}
			e, t, err := s.load(a, args[0])
			if err != nil {
				return err
			}
			x, err := t.Explain(e, args[1], member)
			if err != nil {
				return err
			}
			if a.Format == "json" {
				return a.JSON(x)
			}
			return explain(a, x)
		},
	}
	s.flags(command)
	return command
}

// explain prints the table of an explanation.
func explain(a *cli.App, x *plan.Explanation) error {
	title := fmt.Sprintf("Paths to %s", x.Prefix)
	if x.Member != "" {
		title += " for " + x.Member
	}
	t := record.Table{Title: title, Columns: []string{"position", "sent", "port", "place", "AS path", "hops", "reason"}}
	for _, v := range x.List {
		position, sent := strconv.Itoa(v.Position), "no"
		if v.Position == 0 {
			position = "-"
		}
		if v.Sent {
			sent = "yes"
		}
		t.Rows = append(t.Rows, []string{position, sent, v.Sponsor + "/" + v.Port, v.Place, v.ASPath, strconv.Itoa(v.Length), v.Reason})
	}
	if err := a.Table(t); err != nil {
		return err
	}
	if x.Hashed != x.Prefix {
		fmt.Fprintf(a.Stdout, "The hash is that of %s, the shortest prefix that covers it: the member is small.\n", x.Hashed)
	}
	if x.Omitted {
		fmt.Fprintf(a.Stdout, "%s is left out for the member: the prefix that covers it has the same next hops.\n", x.Prefix)
	}
	return nil
}
