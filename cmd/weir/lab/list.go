// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"weir/cmd/weir/cli"
	"weir/kernel/instance"
	"weir/lab/scenario"
	"weir/record"
)

func newListCommand(a *cli.App) *cobra.Command {
	var up bool
	command := &cobra.Command{
		Use:   "list",
		Short: "List the scenarios that come with Weir, and the labs that are up",
		Example: `  weir lab list
  weir lab list --up      only the labs that are up
  weir lab list --format json`,
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			if err := sweep(a); err != nil {
				return err
			}
			var scenarios []scenario.Summary
			if !up {
				all, err := scenario.List()
				if err != nil {
					return err
				}
				scenarios = all
			}
			labs, err := instance.List()
			if err != nil {
				return err
			}
			if a.Format == "json" {
				return a.JSON(labList{Format: "weir-lab-list/1", Scenarios: listed(scenarios), Labs: cli.OrEmpty(labs)})
			}
			if up {
				return a.Table(labTable(labs))
			}
			if err := a.Table(scenarioTable(scenarios)); err != nil || len(labs) == 0 {
				return err
			}
			fmt.Fprintln(a.Stdout)
			return a.Table(labTable(labs))
		},
	}
	command.Flags().BoolVar(&up, "up", false, "list only the labs that are up")
	return command
}

// labList is the document of weir lab list --format json.
type labList struct {
	Format    string           `json:"format"`
	Scenarios []listedScenario `json:"scenarios"`
	Labs      []instance.Info  `json:"labs"`
}

type listedScenario struct {
	Name        string  `json:"name"`
	Title       string  `json:"title"`
	Cells       int     `json:"cells"`
	Repetitions int     `json:"repetitions"`
	Runs        int     `json:"runs"` // those of single flows alone included
	Traffic     float64 `json:"traffic_seconds"`
}

func listed(all []scenario.Summary) []listedScenario {
	list := make([]listedScenario, 0, len(all))
	for _, s := range all {
		list = append(list, listedScenario{s.Name, s.Title, s.Cells, s.Repetitions, s.Runs(), s.Traffic.Seconds()})
	}
	return list
}

func scenarioTable(all []scenario.Summary) record.Table {
	t := record.Table{Title: "Scenarios", Columns: []string{"name", "runs", "traffic", "measures"},
		Note: "Traffic is the time of all runs without building and calibrating, 2 to 5 s each. weir lab show NAME says more."}
	for _, s := range all {
		t.Rows = append(t.Rows, []string{s.Name, strconv.Itoa(s.Runs()), s.Traffic.Round(time.Second).String(), s.Title})
	}
	return t
}

func labTable(labs []instance.Info) record.Table {
	t := record.Table{Title: "Labs", Columns: []string{"id", "scenario", "for", "process", "since", "nodes"}}
	for _, l := range labs {
		t.Rows = append(t.Rows, []string{l.ID, l.Scenario, string(l.Purpose), strconv.Itoa(l.PID), l.Started.Format(time.DateTime), strconv.Itoa(len(nodesOf(l)))})
	}
	return t
}
