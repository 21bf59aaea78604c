// SPDX-License-Identifier: Apache-2.0

package ix

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"weir/cmd/weir/cli"
	"weir/cmd/weir/complete"
	"weir/internal/atomicfile"
	"weir/ix/config"
)

// joined is the document of weir ix join --format json.
type joined struct {
	Format string `json:"format"`
	Member string `json:"member"`
	AS     uint32 `json:"as"`
	Paths  int    `json:"paths"`
	Added  bool   `json:"added"`
}

func newJoinCommand(a *cli.App) *cobra.Command {
	var check bool
	command := &cobra.Command{
		Use:   "join FILE MEMBER.yaml",
		Short: "Add a member to an exchange file",
		Long: `Check the file of a new member and add it to an exchange file. MEMBER.yaml is one entry
of 'members', as in 'school: {as: 64990, addresses: [10.99.2.77]}'. All mistakes are
reported at once: a reserved AS, an address in use or outside of 'exchange.lan', an
unknown sponsor. Comments and the order of FILE stay.`,
		Example: `  weir ix join exchange.yaml school.yaml --check
  weir ix join exchange.yaml school.yaml`,
		Args: cobra.ExactArgs(2), ValidArgsFunction: complete.Policy,
		RunE: func(_ *cobra.Command, args []string) error { return join(a, args[0], args[1], check) },
	}
	command.Flags().BoolVar(&check, "check", false, "check MEMBER.yaml and change nothing")
	return command
}

func join(a *cli.App, file, memberFile string, check bool) error {
	text, err := config.Read(file)
	if err != nil {
		return err
	}
	member, err := config.ReadMember(memberFile)
	if err != nil {
		return err
	}
	after, m, err := config.Join(file, text, memberFile, member)
	if err != nil {
		return err
	}
	if !check {
		info, err := os.Stat(file)
		if err != nil {
			return err
		}
		if err := atomicfile.WriteBytes(file, info.Mode().Perm(), after); err != nil {
			return err
		}
	}
	if a.Format == "json" {
		return a.JSON(joined{"weir-ix-join/1", m.Name, m.AS, m.Paths, !check})
	}
	done := "is added to " + file
	if check {
		done = "fits into " + file
	}
	_, err = fmt.Fprintf(a.Stdout, "%s (AS %d, %s per prefix) %s\n", m.Name, m.AS, cli.Plural(m.Paths, "path"), done)
	return err
}
