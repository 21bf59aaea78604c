// SPDX-License-Identifier: Apache-2.0

package ix

import (
	"strings"

	"github.com/spf13/cobra"

	"weir/cmd/weir/cli"
	"weir/cmd/weir/complete"
	"weir/ix/birdconf"
	"weir/ix/config"
)

func newBirdCommand(a *cli.App) *cobra.Command {
	return &cobra.Command{
		Use:   "bird FILE",
		Short: "Write BIRD's part beside the path server",
		Long: `Write the part of BIRD's configuration beside the path server: the internal session with
additional paths, and a filter that sends paths with the next hop of a port. The filter adds
two large communities to each: (AS, 1, number of the sponsor) and (AS, 2, number of the
port), numbers from 1 in the order of FILE. Check the result with 'bird -p'.`,
		Example: `  weir ix bird exchange.yaml > /etc/bird/weir.conf`,
		Args:    cobra.ExactArgs(1), ValidArgsFunction: complete.Policy,
		RunE: func(_ *cobra.Command, args []string) error {
			e, err := config.Load(args[0])
			if err != nil {
				return err
			}
			if a.Format != "json" {
				return birdconf.Write(a.Stdout, e)
			}
			var text strings.Builder
			if err := birdconf.Write(&text, e); err != nil {
				return err
			}
			return a.JSON(map[string]string{"format": "weir-ix-bird/1", "configuration": text.String()})
		},
	}
}
