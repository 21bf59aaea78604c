// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"weir/cmd/weir/cli"
	"weir/internal/fault"
	"weir/modules/fleet/bus"
	"weir/modules/fleet/lead"
	"weir/modules/fleet/shared"
)

// enrolled is the document of weir fleet enroll --format json.
type enrolled struct {
	Format string `json:"format"`
	Host   string `json:"host,omitempty"`
	File   string `json:"file"`
}

func newEnrollCommand(a *cli.App) *cobra.Command {
	var dir, fleet, file string
	var operator bool
	command := &cobra.Command{
		Use:   "enroll HOST",
		Short: "Make the credentials of a host",
		Long: `Make the credentials of a host, on the server. With them the host can report for itself
and receive its own grants, nothing else. Copy the file to the host, mode 600, and name
it as credentials in the section fleet of its policy. Enrolling a host again ends its
former credentials.`,
		Example: `  weir fleet enroll web1 --name research                 writes web1.credentials
  weir fleet enroll --operator --name research --file me.credentials`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			host := strings.Join(args, "")
			if operator == (host != "") {
				return fault.New(fault.Usage, "write 'weir fleet enroll HOST', or --operator", "the host is missing, or both HOST and --operator are given")
			}
			if err := bus.CheckName("fleet", fleet); err != nil {
				return err
			}
			if file == "" {
				file = host + ".credentials"
				if operator {
					file = "operator.credentials"
				}
			}
			if err := bus.CheckNew(file); err != nil {
				return err
			}
			c, err := bus.Enroll(dir, fleet, host)
			if err != nil {
				return err
			}
			if err := c.Write(file); err != nil {
				return err
			}
			if a.Format == "json" {
				return a.JSON(enrolled{"weir-fleet-enroll/1", host, file})
			}
			_, err = fmt.Fprintf(a.Stdout, "%s: copy it to the host, mode 600\n", file)
			return err
		},
	}
	command.Flags().StringVar(&dir, "dir", defaultDir, "folder of the server")
	command.Flags().StringVar(&fleet, "name", "", "name of the fleet")
	command.Flags().StringVar(&file, "file", "", "file to write; default HOST.credentials")
	command.Flags().BoolVar(&operator, "operator", false, "make credentials of an operator, which allow changes of the limits")
	return command
}

// changed is the document of weir fleet plan and apply --format json.
type changed struct {
	Format  string   `json:"format"`
	Leader  string   `json:"leader"`
	Changes []string `json:"changes"`
}

func newPlanCommand(a *cli.App) *cobra.Command {
	return changeCommand(a, lead.OpPlan, &cobra.Command{
		Use:     "plan FILE",
		Short:   "Show the changes of an apply of shared limits",
		Long:    "Show how a file differs from the active shared limits, and whether an apply would be\nrejected.",
		Example: "  weir fleet plan limits.yaml",
	})
}

func newApplyCommand(a *cli.App) *cobra.Command {
	return changeCommand(a, lead.OpApply, &cobra.Command{
		Use:   "apply FILE",
		Short: "Replace the shared limits",
		Long: `Replace the shared limits of the fleet by those of a file, all or none. The leader
rejects a limit below the guarantees of its hosts, and a file that omits a limit with
guarantees. A lower limit takes effect within one lease.`,
		Example: `  weir fleet apply limits.yaml
  weir fleet apply limits.yaml --server 10.0.0.1:4222 --credentials me.credentials`,
	})
}

func changeCommand(a *cli.App, op string, command *cobra.Command) *cobra.Command {
	var c client
	command.Args = cobra.ExactArgs(1)
	command.RunE = func(_ *cobra.Command, args []string) error {
		limits, err := shared.Load(args[0])
		if err != nil {
			return err
		}
		r, err := ask(c, lead.Request{Op: op, Limits: limits})
		if err != nil {
			return err
		}
		if a.Format == "json" {
			return a.JSON(changed{"weir-fleet-" + op + "/1", r.Leader, cli.OrEmpty(r.Changes)})
		}
		text := strings.Join(r.Changes, "\n") + "\n"
		if len(r.Changes) == 0 {
			text = "no change\n"
		}
		_, err = fmt.Fprint(a.Stdout, text)
		return err
	}
	c.flags(command)
	return command
}

// ask sends one request.
func ask(c client, q lead.Request) (r lead.Response, err error) {
	conn, err := c.dial()
	if err != nil {
		return r, err
	}
	defer conn.Close()
	if err := conn.Ask(q, &r); err != nil {
		return r, err
	}
	return r, r.Err()
}

func newRemoveCommand(a *cli.App) *cobra.Command {
	var c client
	var dir string
	command := &cobra.Command{
		Use:   "remove HOST",
		Short: "Remove a host that is out of service",
		Long: `Remove a host that no longer reports, so that others can use its guarantee. On the
server the command also revokes the credentials of the host. A host in contact is not
removed: release its policy first.`,
		Example: "  weir fleet remove web1",
		Args:    cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			if err := bus.CheckName("host", args[0]); err != nil {
				return err
			}
			if _, err := ask(c, lead.Request{Op: lead.OpRemove, Host: args[0]}); err != nil {
				return err
			}
			ended, err := bus.Expel(dir, args[0])
			if err == nil && !ended {
				a.Say("no credentials of %s in %s", args[0], dir)
			}
			return err
		},
	}
	c.flags(command)
	command.Flags().StringVar(&dir, "dir", defaultDir, "folder of the server, where the credentials end")
	return command
}
