package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"

	"weir/internal/fault"
	"weir/internal/version"
)

func newManCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:     "man DIRECTORY",
		Short:   "Write the man pages of all commands",
		Example: "  weir man ~/.local/share/man/man1 && man weir-lab-run",
		Args:    cobra.ExactArgs(1),
		RunE: func(command *cobra.Command, args []string) error {
			if err := os.MkdirAll(args[0], 0o755); err != nil {
				return fault.Wrap(fmt.Errorf("write man pages: %w", err), fault.Failed, "name a directory that you may write")
			}
			header := &doc.GenManHeader{Title: "WEIR", Section: "1", Source: "Weir " + version.Number}
			root := command.Root()
			root.DisableAutoGenTag = true
			if err := doc.GenManTree(root, header, args[0]); err != nil {
				return fmt.Errorf("write man pages: %w", err)
			}
			a.say("wrote the man pages to %s", args[0])
			return nil
		},
	}
}
