// SPDX-License-Identifier: Apache-2.0

// Package fleet is the command group weir fleet: the server of limits that many hosts share, and
// the commands of its operators.
package fleet

import (
	"github.com/spf13/cobra"

	"weir/cmd/weir/cli"
	"weir/internal/fault"
	"weir/modules/fleet/bus"
)

// Command returns the command weir fleet.
func Command(a *cli.App) *cobra.Command {
	command := &cobra.Command{
		Use:   "fleet",
		Short: "Share limits among many hosts",
		Long: `Share limits among many hosts. A server grants each host a rate, so that the hosts
together stay below the limit and use all of it. A host needs the server for rates
above its guarantee only.`,
		Example: `  weir fleet serve --name research --listen 10.0.0.1:4222   on the server
  weir fleet enroll web1                                    credentials for the host web1
  weir fleet apply limits.yaml                              set the shared limits
  weir fleet status                                         hosts, rates and guarantees
  weir fleet top                                            the same, live`,
	}
	command.AddCommand(newServeCommand(a), newEnrollCommand(a), newPlanCommand(a), newApplyCommand(a), newStatusCommand(a), newTopCommand(a), newRemoveCommand(a), newSimulateCommand(a))
	return command
}

// defaultDir is the folder of a server.
const defaultDir = "/var/lib/weir/fleet"

// client holds the flags of commands that ask the leader.
type client struct {
	servers     []string
	credentials string
}

func (c *client) flags(command *cobra.Command) {
	command.Flags().StringSliceVar(&c.servers, "server", []string{"127.0.0.1:4222"}, "address and port of a server; several for a cluster")
	command.Flags().StringVar(&c.credentials, "credentials", defaultDir+"/operator.credentials", "credentials of an operator")
}

func (c *client) dial() (*bus.Conn, error) {
	for _, s := range c.servers {
		if err := bus.CheckAddress(s); err != nil {
			return nil, fault.Wrap(err, fault.Usage, fault.Advice(err))
		}
	}
	return bus.Dial("", c.servers, c.credentials, false)
}
