// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"weir/cmd/weir/cli"
	"weir/internal/texttable"
	"weir/internal/units"
	"weir/modules/fleet/lead"
	"weir/modules/fleet/leader"
	"weir/record"
)

// status is the document of weir fleet status --format json.
type status struct {
	Format string `json:"format"`
	Leader string `json:"leader"`
	leader.Status
}

func newStatusCommand(a *cli.App) *cobra.Command {
	var c client
	command := &cobra.Command{
		Use:   "status",
		Short: "Show the shared limits and the hosts of a fleet",
		Long: `Show the shared limits and the hosts of a fleet, as its leader sees them, with granted,
used and guaranteed rates. A host without contact has its guarantee.`,
		Example: `  weir fleet status
  weir fleet status --format json --server 10.0.0.1:4222`,
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			r, err := ask(c, lead.Request{Op: lead.OpStatus})
			if err != nil {
				return err
			}
			if r.Status == nil {
				return fmt.Errorf("the leader answers without a status")
			}
			if a.Format == "json" {
				return a.JSON(status{"weir-fleet-status/1", r.Leader, *r.Status})
			}
			return show(a.Stdout, a.Style(), r)
		},
	}
	c.flags(command)
	return command
}

func rate(bps float64) string { return units.BitRate(bps).Short() }

// usedShare is the used share of a limit, for people.
func usedShare(l leader.LimitStatus) string { return fmt.Sprintf("%.1f %%", 100*l.Used/l.Rate) }

// show writes the tables.
func show(to io.Writer, style texttable.Style, r lead.Response) error {
	if _, err := fmt.Fprintf(to, "leader %s, epoch %d\n\n", r.Leader, r.Status.Epoch); err != nil {
		return err
	}
	limits := record.Table{Title: "Shared limits", Columns: []string{"limit", "parent", "rate", "granted", "used", "of rate", "guaranteed", "hosts"}}
	for _, l := range r.Status.Limits {
		limits.Rows = append(limits.Rows, []string{l.Name, l.Parent, rate(l.Rate), rate(l.Granted), rate(l.Used), usedShare(l), rate(l.Floors), strconv.Itoa(l.Hosts)})
	}
	hosts := record.Table{Title: "Hosts", Columns: []string{"host", "scope", "limit", "granted", "used", "guaranteed", "contact", "note"}}
	for _, h := range r.Status.Hosts {
		contact := "yes"
		switch {
		case !h.Contact && h.Silent > 0:
			contact = "lost " + h.Silent.Round(time.Second).String() + " ago"
		case !h.Contact:
			contact = "none"
		}
		hosts.Rows = append(hosts.Rows, []string{h.Host, h.Claim, h.Limit, rate(h.Granted), rate(h.Used), rate(h.Floor), contact, h.Reason})
	}
	for _, t := range []record.Table{limits, hosts} {
		if err := style.Write(to, t.Title, t.Note, t.Columns, t.Rows); err != nil {
			return err
		}
	}
	return nil
}
