// SPDX-License-Identifier: Apache-2.0

// Package lab is the command group weir lab, which measures scenarios on emulated links.
package lab

import (
	"strings"

	"github.com/spf13/cobra"

	"weir/cmd/weir/cli"
	"weir/internal/fault"
	"weir/kernel/instance"
	"weir/lab/scenario"
)

// Command returns the command weir lab.
func Command(a *cli.App) *cobra.Command {
	command := &cobra.Command{
		Use:   "lab",
		Short: "Measure traffic on emulated links between network namespaces",
		Long: `Measure traffic on emulated links between network namespaces of this machine.

A scenario file describes hosts, links, traffic and parameters. The lab builds the hosts
as network namespaces, checks by measurement that the links match the file, runs every
combination of parameters in random order, and writes an evidence bundle: a folder with
samples, verdicts, figures and report.html. Nothing outside the lab's own namespaces
changes. The next weir lab command removes the leftovers of a killed lab.`,
		Example: `  weir lab list                              the scenarios that come with Weir
  sudo weir lab run loss-quick               the effect of 1 % packet loss on TCP
  sudo weir lab run my.yaml --set loss=0%,1% --out results/one
  sudo weir lab up loss-study --detach && sudo weir lab exec sender -- ping -c 3 receiver`,
	}
	command.AddCommand(
		newListCommand(a), newShowCommand(a), newRunCommand(a), newRerunCommand(a), newCompareCommand(a), newOverlayCommand(a),
		newUpCommand(a), newExecCommand(a), newShellCommand(a), newDownCommand(a),
	)
	return command
}

// sweep removes the leftovers of killed labs.
func sweep(a *cli.App) error {
	removed, err := instance.Sweep()
	if len(removed) > 0 {
		a.Say("removed leftovers of a killed lab: %s", strings.Join(removed, ", "))
	}
	return err
}

// loadScenario loads a scenario and applies the values of --set, each "parameter=value,value".
func loadScenario(name string, set []string) (*scenario.Scenario, map[string]string, error) {
	s, err := scenario.Load(name)
	if err != nil {
		return nil, nil, err
	}
	chosen := map[string]string{}
	for _, assignment := range set {
		parameter, values, found := strings.Cut(assignment, "=")
		if !found || values == "" {
			return nil, nil, fault.New(fault.Usage, "write it as in --set loss=0%,1%", "--set %s gives no value", assignment)
		}
		if err := s.Set(parameter, splitValues(values)); err != nil {
			show := "weir lab show "
			return nil, nil, fault.New(fault.Usage, strings.ReplaceAll(fault.Advice(err), show+s.Name, show+name), "%w", err)
		}
		chosen[parameter] = values
	}
	return s, chosen, nil
}

func splitValues(text string) []string {
	values := strings.Split(text, ",")
	for i := range values {
		values[i] = strings.TrimSpace(values[i])
	}
	return values
}

// completeScenario completes the names of shipped scenarios, and lets the shell complete files.
func completeScenario(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	list, err := scenario.List()
	if err != nil {
		return nil, cobra.ShellCompDirectiveDefault
	}
	var names []string
	for _, s := range list {
		names = append(names, s.Name+"\t"+s.Title)
	}
	return names, cobra.ShellCompDirectiveDefault
}
