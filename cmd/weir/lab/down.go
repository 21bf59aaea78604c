// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"context"
	"errors"
	"time"

	"github.com/spf13/cobra"

	"weir/cmd/weir/cli"
	"weir/cmd/weir/complete"
	"weir/internal/fault"
	"weir/kernel/instance"
)

const (
	// downTime limits the wait for the process of a lab.
	downTime = 20 * time.Second
	// orphanAge protects a lab that is still being built.
	orphanAge = time.Minute
)

func newDownCommand(a *cli.App) *cobra.Command {
	var all, runs bool
	command := &cobra.Command{
		Use:   "down [ID...]",
		Short: "Take labs down, and remove the leftovers of killed labs",
		Long: `Take down the labs with the given IDs. Without an ID, take down the only lab that is up;
with --all, take down every lab that is up. The programs inside these labs are
terminated. The command always removes the leftovers of killed labs. With --all it also
removes unused namespaces and cgroups of labs without a directory. Running measurements
continue unless --runs is given.`,
		Example: `  sudo weir lab down
  sudo weir lab down 3fa9c1
  sudo weir lab down --all`,
		ValidArgsFunction: complete.Lab,
		RunE: func(command *cobra.Command, args []string) error {
			if err := sweep(a); err != nil {
				return err
			}
			if all {
				orphans, err := instance.SweepOrphans(orphanAge)
				if err != nil {
					return err
				}
				for _, name := range orphans {
					a.Say("removed %s: a namespace or cgroup without a lab", name)
				}
			}
			chosen, err := labsToEnd(args, all, runs)
			if err != nil {
				return err
			}
			ctx, cancel := context.WithTimeout(command.Context(), downTime)
			defer cancel()
			var errs []error
			ended := []string{}
			for _, info := range chosen {
				err := instance.End(ctx, info)
				if err == nil {
					ended = append(ended, info.ID)
					a.Say("took down %s (%s)", info.ID, info.Scenario)
				}
				errs = append(errs, err)
			}
			if err := errors.Join(errs...); err != nil || a.Format != "json" {
				return err
			}
			return a.JSON(struct {
				Format string   `json:"format"`
				Labs   []string `json:"labs"`
			}{"weir-lab-down/1", ended})
		},
	}
	command.Flags().BoolVar(&all, "all", false, "take down every lab that is up")
	command.Flags().BoolVar(&runs, "runs", false, "with --all: also end running measurements")
	return command
}

func labsToEnd(ids []string, all, runs bool) ([]instance.Info, error) {
	if all && len(ids) > 0 {
		return nil, fault.New(fault.Usage, "use either --all or IDs", "--all and IDs were given together")
	}
	list, err := instance.List()
	if err != nil {
		return nil, err
	}
	var chosen []instance.Info
	if all {
		for _, info := range list {
			if info.Purpose == instance.Up || runs {
				chosen = append(chosen, info)
			}
		}
		return chosen, nil
	}
	if len(ids) == 0 {
		if len(list) == 0 {
			return nil, nil
		}
		ids = []string{""}
	}
	for _, id := range ids {
		info, err := instance.Find(id)
		if err != nil {
			return nil, err
		}
		chosen = append(chosen, info)
	}
	return chosen, nil
}
