// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"weir/cmd/weir/cli"
	"weir/internal/fault"
	"weir/internal/nearest"
	"weir/kernel/instance"
	"weir/kernel/netns"
	"weir/lab/topology"
)

func newExecCommand(a *cli.App) *cobra.Command {
	var id string
	command := &cobra.Command{
		Use:   "exec NODE -- COMMAND [ARGUMENT...]",
		Short: "Run a program inside a host of a lab that is up",
		Long: `Run a program inside a host of a lab that is up. Only the network namespace belongs to
the lab host. Files, users and processes are those of this machine, except /etc/hosts,
which contains the names of the lab hosts. "weir lab up" prints their addresses. The exit
status is that of the program.`,
		Example: `  sudo weir lab exec sender -- ping -c 3 receiver
  sudo weir lab exec --lab 3fa9c1 receiver -- iperf3 -s`,
		Args:              cobra.MinimumNArgs(2),
		ValidArgsFunction: completeNode,
		RunE: func(_ *cobra.Command, args []string) error {
			program := args[1:]
			if program[0] == "--" {
				program = program[1:]
			}
			if len(program) == 0 {
				return fault.New(fault.Usage, "write it as in: weir lab exec "+args[0]+" -- ip address", "no program is named")
			}
			return execInside(a, id, args[0], program, nil)
		},
	}
	command.Flags().StringVar(&id, "lab", "", "id of the lab; not needed if only one is up")
	command.Flags().SetInterspersed(false)
	return command
}

func newShellCommand(a *cli.App) *cobra.Command {
	var id string
	command := &cobra.Command{
		Use:   "shell NODE",
		Short: "Start a shell inside a host of a lab that is up",
		Long: `Start $SHELL inside a host of a lab that is up, as weir lab exec does. The prompt of
bash and sh shows the host.`,
		Example:           "  sudo weir lab shell sender",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: completeNode,
		RunE: func(_ *cobra.Command, args []string) error {
			shell := os.Getenv("SHELL")
			if shell == "" {
				shell = "/bin/sh"
			}
			return execInside(a, id, args[0], []string{shell}, promptOf)
		},
	}
	command.Flags().StringVar(&id, "lab", "", "id of the lab; not needed if only one is up")
	return command
}

// completeNode completes the nodes of labs that are up.
func completeNode(command *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveDefault
	}
	id, _ := command.Flags().GetString("lab")
	info, err := instance.Find(id)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return nodesOf(info), cobra.ShellCompDirectiveNoFileComp
}

func nodesOf(info instance.Info) []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(info.Nodes)), func(name string) bool { return strings.HasPrefix(name, "_") })
}

// promptOf changes arguments and environment of a shell so that its prompt shows the node. bash
// reads its prompt from its own files, so it gets a file that includes those.
func promptOf(info instance.Info, node string, command, environment []string) ([]string, []string) {
	prompt := "(" + node + ") "
	if filepath.Base(command[0]) == "bash" {
		file := filepath.Join(info.Dir, "bashrc-"+node)
		text := "[ -f ~/.bashrc ] && . ~/.bashrc\nPS1='" + prompt + "'\"$PS1\"\n"
		if os.WriteFile(file, []byte(text), 0o644) == nil {
			return append(command, "--rcfile", file), environment
		}
	}
	return command, append(environment, "PS1="+prompt+"# ")
}

// execInside replaces this process by a program in the namespace of a node. complete, if not nil,
// changes its arguments and environment.
func execInside(a *cli.App, id, node string, command []string,
	complete func(info instance.Info, node string, command, environment []string) ([]string, []string)) error {
	if err := sweep(a); err != nil {
		return err
	}
	info, err := instance.Find(id)
	if err != nil {
		return err
	}
	name, known := info.Nodes[node]
	if !known {
		return fault.New(fault.Usage, "its nodes are "+strings.Join(nodesOf(info), ", "), "lab %s has no node %q%s", info.ID, node, nearest.Hint(node, nodesOf(info)))
	}
	path, err := exec.LookPath(command[0])
	if err != nil {
		return fault.Wrap(fmt.Errorf("run in %s: %w", node, err), fault.Usage, "name a program that exists on this machine")
	}
	ns, err := netns.Open(name)
	if errors.Is(err, os.ErrPermission) {
		return fault.Wrap(err, fault.Permission, "run it as root (sudo)")
	}
	if err != nil {
		return err
	}
	environment := append(os.Environ(), "WEIR_LAB="+info.ID, "WEIR_NODE="+node)
	if complete != nil {
		command, environment = complete(info, node, command, environment)
	}
	// The thread that calls execve becomes the process, so its namespace is the program's. Other
	// mounts than /etc/hosts stay as they are: a fresh /sys would hide the bpf and cgroup file
	// systems.
	runtime.LockOSThread()
	if err := unix.Setns(ns.FD(), unix.CLONE_NEWNET); err != nil {
		return fault.Wrap(fmt.Errorf("enter %s: %w", name, err), fault.Permission, "run it as root (sudo)")
	}
	if err := netns.ReplaceHosts(topology.HostsFile(info.Dir, 0)); err != nil {
		fmt.Fprintln(os.Stderr, "Note: hosts do not know each other by name:", err)
	}
	return fmt.Errorf("run %s in %s: %w", path, node, syscall.Exec(path, command, environment))
}
