// SPDX-License-Identifier: Apache-2.0

// Package measure is the command group weir measure: a measurement site, and a client of such
// sites.
package measure

import (
	"github.com/spf13/cobra"

	"weir/cmd/weir/cli"
)

// Command returns the command weir measure.
func Command(a *cli.App) *cobra.Command {
	command := &cobra.Command{
		Use:   "measure",
		Short: "Run a measurement site, and test the rate and delay to one",
		Long: `Run a server for the protocols ndt7 and msak of Measurement Lab, and test the rate and
delay of a path to such a server, Weir's or another one.`,
		Example: `  weir measure serve --listen :8080 --tls-listen :8443 --self-signed --spool ./spool   a site for a lab
  weir measure serve --cert cert.pem --key key.pem       a public site
  weir measure archive --archive s3://mlab/site1 --now   records into an archive
  weir measure run ndt.example.org                       download and upload
  weir measure run ndt.example.org --both --repeat 5     IPv4 against IPv6`,
	}
	command.AddCommand(newServeCommand(a), newRunCommand(a), newArchiveCommand(a))
	return command
}
