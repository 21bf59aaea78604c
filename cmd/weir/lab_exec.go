// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"weir/internal/fault"
	"weir/internal/kernel/netns"
	"weir/internal/nearest"
	"weir/lab/instance"
)

func newLabExecCommand(a *app) *cobra.Command {
	var id string
	command := &cobra.Command{
		Use:   "exec NODE -- COMMAND [ARGUMENT...]",
		Short: "Run a program inside a host of a lab that is up",
		Long: `Run a program inside a host of a lab that is up. Only the network namespace is the
host's: files, users and processes are those of this machine. The exit status is
the program's own. weir lab up prints the hosts' addresses.`,
		Example: `  sudo weir lab exec sender -- ping -c 3 10.0.0.2
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
			return a.execInside(id, args[0], program)
		},
	}
	command.Flags().StringVar(&id, "lab", "", "id of the lab; not needed if only one is up")
	command.Flags().SetInterspersed(false)
	return command
}

func newLabShellCommand(a *app) *cobra.Command {
	var id string
	command := &cobra.Command{
		Use:               "shell NODE",
		Short:             "Start a shell inside a host of a lab that is up",
		Example:           "  sudo weir lab shell sender",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: completeNode,
		RunE: func(_ *cobra.Command, args []string) error {
			shell := os.Getenv("SHELL")
			if shell == "" {
				shell = "/bin/sh"
			}
			return a.execInside(id, args[0], []string{shell})
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

// execInside replaces this process by a program in a node's namespace.
func (a *app) execInside(id, node string, command []string) error {
	if err := a.sweepLabs(); err != nil {
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
	// The thread that calls execve becomes the process, so its namespace is the program's. The
	// mounts stay as they are: a fresh /sys would hide the bpf and cgroup file systems.
	runtime.LockOSThread()
	if err := unix.Setns(ns.FD(), unix.CLONE_NEWNET); err != nil {
		return fault.Wrap(fmt.Errorf("enter %s: %w", name, err), fault.Permission, "run it as root (sudo)")
	}
	return fmt.Errorf("run %s in %s: %w", path, node, syscall.Exec(path, command, environment))
}
