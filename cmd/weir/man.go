// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"

	"weir/cmd/weir/cli"
	"weir/internal/fault"
	"weir/internal/version"
	"weir/modules/cc"
)

func newManCommand(a *cli.App) *cobra.Command {
	return &cobra.Command{
		Use:     "man DIRECTORY",
		Short:   "Write the man pages of all commands",
		Example: "  weir man ~/.local/share/man/man1 && man weir-lab-run",
		Args:    cobra.ExactArgs(1),
		RunE: func(command *cobra.Command, args []string) error {
			if err := os.MkdirAll(args[0], 0o755); err != nil {
				return fault.Wrap(fmt.Errorf("write man pages: %w", err), fault.Failed, "name a directory that you may write")
			}
			root := command.Root()
			root.DisableAutoGenTag = true
			root.InitDefaultCompletionCmd()
			pages, err := writePages(root, args[0])
			if err != nil {
				return fmt.Errorf("write man pages: %w", err)
			}
			if a.Format == "json" {
				return a.JSON(struct {
					Format string   `json:"format"`
					Pages  []string `json:"pages"`
				}{"weir-man/1", pages})
			}
			a.Say("wrote the man pages to %s", args[0])
			return nil
		},
	}
}

// writePages writes the pages of a command and its subcommands, and returns their names.
func writePages(command *cobra.Command, folder string) (pages []string, err error) {
	for _, sub := range command.Commands() {
		if !sub.IsAvailableCommand() || sub.IsAdditionalHelpTopicCommand() {
			continue
		}
		below, err := writePages(sub, folder)
		if err != nil {
			return nil, err
		}
		pages = append(pages, below...)
	}
	name := strings.ReplaceAll(command.CommandPath(), " ", "-")
	// Without a date the page would have that of its making, and no two builds be the same.
	header := &doc.GenManHeader{Title: strings.ToUpper(name), Section: "1", Source: "Weir " + version.Number, Manual: "Weir", Date: &pagesDate}
	var page bytes.Buffer
	if err := doc.GenMan(command, header, &page); err != nil {
		return nil, err
	}
	text := page.String()
	before, after, _ := strings.Cut(text, ".SH SEE ALSO\n")
	if before != text {
		after = ".SH SEE ALSO\n" + after
	}
	path := filepath.Join(folder, name+".1")
	return append(pages, path), os.WriteFile(path, []byte(before+furtherSections(command)+after), 0o644)
}

// pagesDate is on every page.
var pagesDate = time.Date(2026, time.November, 1, 0, 0, 0, 0, time.UTC)

// entry is one item of a man page's list.
type entry struct{ name, text string }

// furtherSections returns the sections that follow from conventions of Weir.
func furtherSections(command *cobra.Command) string {
	var b strings.Builder
	for _, section := range []struct {
		title   string
		entries []entry
	}{{"EXIT STATUS", exitStatuses(command)}, {"FILES", filesOf(command)}, {"ENVIRONMENT", environmentOf(command)}} {
		fmt.Fprintf(&b, ".SH %s\n", section.title)
		for _, e := range section.entries {
			fmt.Fprintf(&b, ".TP\n\\fB%s\\fP\n%s\n", roff(e.name), roff(e.text))
		}
		b.WriteString("\n")
	}
	return b.String()
}

func roff(text string) string {
	text = strings.NewReplacer(`\`, `\e`, "-", `\-`).Replace(text)
	if strings.HasPrefix(text, ".") || strings.HasPrefix(text, "'") {
		text = `\&` + text
	}
	return text
}

// under reports whether a command is one of these, or a subcommand of one.
func under(command *cobra.Command, names ...string) bool {
	for c := command; c.HasParent(); c = c.Parent() {
		for _, name := range names {
			if !c.Parent().HasParent() && c.Name() == name {
				return true
			}
		}
	}
	return false
}

func exitStatuses(command *cobra.Command) []entry {
	all := []entry{
		{"0", "Success, and every verdict passed."},
		{"1", "The command or a verdict failed."},
		{"2", "Wrong usage or bad input. Nothing has changed."},
		{"3", "The host cannot support the treatment or the measurement."},
		{"4", "Not permitted."},
	}
	if under(command, "run") || command.Name() == "exec" || command.Name() == "shell" {
		all = append(all, entry{"other", "That of the program that was run."})
	}
	return all
}

func filesOf(command *cobra.Command) (all []entry) {
	root := !command.HasParent()
	if root || under(command, "plan", "apply", "daemon") {
		all = append(all, entry{cli.DefaultPolicy, "The policy, where no other file is named. As installed it limits nothing."})
	}
	if root || under(command, "plan", "apply", "daemon", "status", "top", "release", "run", "prove") {
		all = append(all, entry{"/run/weir/policy", "The active state, its journal, and the controller's lease."},
			entry{"/sys/fs/bpf/weir", "The pins that keep limits active without a process of Weir."})
	}
	if root || under(command, "daemon") {
		all = append(all, entry{"/run/weir/api.sock", "The daemon's HTTP API, for its owner alone."})
	}
	if root || under(command, "lab") {
		all = append(all, entry{"/run/weir/lab", "Running labs and the objects that they created, for removal by a later command."},
			entry{"weir-out", "Evidence bundles, below the current folder unless --out names another."})
	}
	if root || under(command, "cc") {
		all = append(all, entry{cc.Pins, "Congestion controls that were installed with --pin."})
	}
	if len(all) == 0 {
		all = []entry{{"none", "It keeps nothing between two calls."}}
	}
	return all
}

func environmentOf(command *cobra.Command) []entry {
	all := []entry{{"NO_COLOR", "If set, no colour is used, also on a terminal."}}
	if !command.HasParent() || under(command, "lab") {
		all = append(all, entry{"WEIR_RUN_DIR", "Folder to keep labs and runs in, in place of /run/weir."})
	}
	if under(command, "prove") {
		all = append(all, entry{cli.TokenVariable, "The secret that both ends know, where no option gives one."})
	}
	if command.Name() == "shell" {
		all = append(all, entry{"SHELL", "The shell that is started."})
	}
	if under(command, "daemon") {
		all = append(all, entry{"NOTIFY_SOCKET, WATCHDOG_USEC, WATCHDOG_PID", "Interface of the service manager; see sd_notify(3)."},
			entry{"GOMEMLIMIT, GOGC", "Targets of the garbage collector; default 64 MiB and 50."})
	}
	return all
}
