// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"weir/cmd/weir/cli"
	"weir/internal/version"
)

func newVersionCommand(a *cli.App) *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print release, commit and Go version",
		Example: `  weir version
  weir version --format json | jq -r .commit`,
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			info := version.Read()
			if a.Format == "json" {
				return a.JSON(struct {
					Format string `json:"format"`
					version.Info
				}{"weir-version/1", info})
			}
			commit := "commit not recorded"
			if info.Commit != "" {
				commit = "commit " + info.Commit
			}
			if info.Modified {
				commit += " with changes"
			}
			_, err := fmt.Fprintf(a.Stdout, "weir %s\n%s\n%s %s\n", info.Version, commit, info.Go, info.Platform)
			return err
		},
	}
}
