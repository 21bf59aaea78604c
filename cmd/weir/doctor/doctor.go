// SPDX-License-Identifier: Apache-2.0

// Package doctor is the command weir doctor, which lists the mechanism of each capability.
package doctor

import (
	"fmt"

	"github.com/spf13/cobra"

	"weir/cmd/weir/cli"
	"weir/core/doctor"
	"weir/modules"
)

// Command returns the command weir doctor.
func Command(a *cli.App) *cobra.Command {
	return &cobra.Command{
		Use:   "doctor",
		Short: "Check kernel features and list the mechanism that each capability uses",
		Long: `Probe every kernel feature that Weir can use. Report the mechanism of each capability on
this machine, the missing features, and how to get them.

The command changes nothing: its probes run in temporary network namespaces. Without
root, it reports the features that it can test, and lists the missing privileges.

The exit status is 0 if the lab can run on this machine, 3 if a feature for the lab is
missing, and 4 if only privileges are missing.`,
		Example: `  sudo weir doctor
  weir doctor --format json | jq '.capabilities'`,
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			report := doctor.Examine(modules.All())
			if err := printDoctor(a, report); err != nil {
				return err
			}
			return report.LabError()
		},
	}
}

func printDoctor(a *cli.App, report doctor.Report) error {
	if a.Format == "json" {
		return a.JSON(report)
	}
	for i, table := range report.Tables() {
		if i > 0 {
			fmt.Fprintln(a.Stdout)
		}
		if err := a.Table(table); err != nil {
			return err
		}
	}
	return nil
}
