// SPDX-License-Identifier: Apache-2.0

// Package cc is the command group weir cc, which installs TCP congestion controls.
package cc

import (
	"fmt"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"weir/cmd/weir/cli"
	"weir/modules/cc"
	"weir/record"
)

// Command returns the command weir cc.
func Command(a *cli.App) *cobra.Command {
	command := &cobra.Command{
		Use:   "cc",
		Short: "Bring TCP congestion controls to kernels that lack them",
		Long: `Bring TCP congestion controls as BPF programs to kernels that were built without
them. Their names are global on the host, in every network namespace. They need
Linux 6.4 or later with CONFIG_BPF_JIT and CONFIG_DEBUG_INFO_BTF.`,
		Example: `  sudo weir cc install dctcp --pin
  weir cc list
  sudo weir cc remove dctcp`,
	}
	command.AddCommand(newInstallCommand(a), newListCommand(a), newRemoveCommand(a))
	return command
}

// installOptions are the flags of weir cc install.
type installOptions struct {
	pin, unrestricted bool
	cgroups           []string
}

func newInstallCommand(a *cli.App) *cobra.Command {
	var o installOptions
	command := &cobra.Command{
		Use:   "install ALGORITHM",
		Short: "Install a congestion control: " + strings.Join(cc.Algorithms(), ", "),
		Long: `Install a congestion control under the name weir_ALGORITHM. Without --pin it stays
until this command is interrupted; with it, until "weir cc remove".

` + cc.About() + `

Sockets need CAP_NET_ADMIN in their network namespace to choose it, and a child
namespace cannot make it its default, unless net.ipv4.tcp_allowed_congestion_control
of the initial namespace lists it. --unrestricted adds it there while it is installed. With --cgroup the new connections of a cgroup
get it by default, unless the application has chosen one or the peer refuses ECN.`,
		Example: `  sudo weir cc install dctcp
  sudo weir cc install dctcp --pin
  sudo weir cc install dctcp --pin --cgroup /sys/fs/cgroup/system.slice/backup.service`,
		Args:      cobra.ExactArgs(1),
		ValidArgs: cc.Algorithms(),
		RunE: func(command *cobra.Command, args []string) error {
			return install(a, command, args[0], o)
		},
	}
	command.Flags().BoolVar(&o.pin, "pin", false, "keep it after this command has ended")
	command.Flags().BoolVar(&o.unrestricted, "unrestricted", false, "let every user choose it, and child namespaces have it as their default")
	command.Flags().StringArrayVar(&o.cgroups, "cgroup", nil, "give it to the new connections of this cgroup; may be repeated")
	return command
}

// installed is the document of weir cc install --format json.
type installed struct {
	Format  string   `json:"format"`
	Name    string   `json:"name"`
	Pin     string   `json:"pin,omitempty"`
	Cgroups []string `json:"cgroups,omitempty"`
}

func install(a *cli.App, command *cobra.Command, algorithm string, o installOptions) error {
	control, err := cc.Install(algorithm, cc.Options{Unrestricted: o.unrestricted})
	if err != nil {
		return err
	}
	defer func() { _ = control.Close() }()
	for _, path := range o.cgroups {
		if err := control.Attach(path); err != nil {
			return err
		}
	}
	document := installed{Format: "weir-cc-installed/1", Name: control.Name(), Cgroups: o.cgroups}
	if o.pin {
		if err := control.Pin(cc.Pins); err != nil {
			return err
		}
		document.Pin = filepath.Join(cc.Pins, control.Name())
	}
	if a.Format == "json" {
		err = a.JSON(document)
	} else {
		_, err = fmt.Fprintln(a.Stdout, control.Name())
	}
	if err != nil || o.pin {
		return err
	}
	a.Say("%s is installed until this command is interrupted", control.Name())
	<-command.Context().Done()
	return control.Close()
}

func newListCommand(a *cli.App) *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "List the congestion controls that the kernel offers",
		Example: `  weir cc list
  weir cc list --format json`,
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			controls, err := cc.List(cc.Pins)
			if err != nil {
				return err
			}
			if a.Format == "json" {
				return a.JSON(struct {
					Format   string       `json:"format"`
					Controls []cc.Control `json:"controls"`
				}{"weir-cc-list/1", controls})
			}
			return a.Table(table(controls))
		},
	}
}

func table(controls []cc.Control) record.Table {
	t := record.Table{
		Columns: []string{"name", "available to", "pinned", "cgroups", "connections"},
		Note:    "A kernel module that was not used yet is not listed.",
	}
	for _, c := range controls {
		who, pin, cgroups, connections := "everyone", c.Pin, "", ""
		if c.Restricted {
			who = "CAP_NET_ADMIN"
		}
		if c.InForce {
			pin = strings.TrimPrefix(pin+", by the active policy", ", ")
		}
		if c.Counts != nil {
			cgroups, connections = strconv.Itoa(c.Scopes), strconv.FormatUint(c.Counts.Assigned, 10)
		}
		t.Rows = append(t.Rows, []string{c.Name, who, pin, cgroups, connections})
	}
	return t
}

func newRemoveCommand(a *cli.App) *cobra.Command {
	return &cobra.Command{
		Use:   "remove ALGORITHM",
		Short: "Remove a pinned congestion control",
		Long: `Remove a pinned congestion control and end its cgroups. Connections that use it keep
it until they close; new connections cannot choose it. A control that the active
policy uses is not removed.`,
		Example:   "  sudo weir cc remove dctcp",
		Args:      cobra.ExactArgs(1),
		ValidArgs: cc.Algorithms(),
		RunE: func(_ *cobra.Command, args []string) error {
			name := cc.DefaultName(args[0])
			if err := cc.Remove(cc.Pins, name); err != nil {
				return err
			}
			if a.Format == "json" {
				return a.JSON(struct {
					Format string `json:"format"`
					Name   string `json:"name"`
				}{"weir-cc-removed/1", name})
			}
			a.Say("removed %s", name)
			return nil
		},
	}
}
