// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"weir/core/doctor"
	"weir/modules"
)

func newDoctorCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "doctor",
		Short: "Check kernel features and list the mechanism each capability uses",
		Long: `Doctor tries every feature of the kernel that Weir can use and says which
mechanism each capability uses here, what is missing and how to get it.

It changes nothing: it tries in network namespaces of its own that end with it.
Without root it reports what can be read, and names the capabilities it lacks.

The exit status is 0 if the lab can run here, 3 if this machine cannot carry it,
and 4 if permissions are all that is missing.`,
		Example: `  sudo weir doctor
  weir doctor --format json | jq '.capabilities'`,
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			report := doctor.Examine(modules.All())
			if err := a.printDoctor(report); err != nil {
				return err
			}
			return report.LabError()
		},
	}
}

func (a *app) printDoctor(report doctor.Report) error {
	if a.format == "json" {
		return a.json(report)
	}
	for i, table := range report.Tables() {
		if i > 0 {
			fmt.Fprintln(a.stdout)
		}
		if err := a.table(table); err != nil {
			return err
		}
	}
	return nil
}
