// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"weir/cmd/weir/cli"
	"weir/lab/link"
	"weir/lab/scenario"
	"weir/lab/traffic"
	"weir/record"
)

func newShowCommand(a *cli.App) *cobra.Command {
	var set []string
	var source bool
	command := &cobra.Command{
		Use:   "show NAME|FILE",
		Short: "Show the topology, parameters and expectations of a scenario",
		Example: `  weir lab show loss-study
  weir lab show loss-study --source > mine.yaml   a copy to change`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: completeScenario,
		RunE: func(_ *cobra.Command, args []string) error {
			s, _, err := loadScenario(args[0], set)
			if err != nil {
				return err
			}
			if source {
				_, err := fmt.Fprint(a.Stdout, s.Source)
				return err
			}
			return showScenario(a, s)
		},
	}
	command.Flags().StringArrayVar(&set, "set", nil, "values of a parameter, as in --set loss=0%,1% (repeatable)")
	command.Flags().BoolVar(&source, "source", false, "print the scenario's file")
	return command
}

// shownScenario is the document of weir lab show --format json.
type shownScenario struct {
	Format      string                 `json:"format"`
	Name        string                 `json:"name"`
	Title       string                 `json:"title"`
	Description string                 `json:"description"`
	Seed        uint64                 `json:"seed"`
	Repetitions int                    `json:"repetitions"`
	Parameters  []scenario.Parameter   `json:"parameters"`
	Fallback    *scenario.Fallback     `json:"fallback,omitempty"`
	Cells       []record.Labels        `json:"cells"`
	Runs        int                    `json:"runs"` // those of single flows alone included
	Traffic     float64                `json:"traffic_seconds"`
	First       *scenario.Cell         `json:"first_cell"`
	Expect      []scenario.Expectation `json:"expect"`
}

func showScenario(a *cli.App, s *scenario.Scenario) error {
	cells, err := s.Expand()
	if err != nil {
		return err
	}
	summary, err := s.Summary()
	if err != nil {
		return err
	}
	if a.Format == "json" {
		shown := shownScenario{Format: "weir-lab-scenario/1", Name: s.Name, Title: s.Title, Description: s.Description, Seed: s.Seed,
			Repetitions: s.Repetitions, Parameters: cli.OrEmpty(s.Parameters), Fallback: s.Fallback, First: &cells[0],
			Runs: summary.Runs(), Traffic: summary.Traffic.Seconds(), Expect: cli.OrEmpty(s.Expect)}
		for _, cell := range cells {
			shown.Cells = append(shown.Cells, cell.Labels)
		}
		return a.JSON(shown)
	}
	fmt.Fprintf(a.Stdout, "%s: %s\n\n%s\n\n", s.Name, s.Title, strings.TrimSpace(s.Description))
	fmt.Fprintf(a.Stdout, "%s of parameters, %s each, seed %d\n%s\n\n", cli.Plural(len(cells), "combination"), cli.Plural(s.Repetitions, "repetition"), s.Seed, runsText(summary))
	for _, t := range []record.Table{parameterTable(s), linkTable(&cells[0]), limitTable(&cells[0]), nodeTable(cells), trafficTable(&cells[0]), expectationTable(s)} {
		if len(t.Rows) == 0 {
			continue
		}
		if err := a.Table(t); err != nil {
			return err
		}
		fmt.Fprintln(a.Stdout)
	}
	return nil
}

// runsText describes the number of measurements of a scenario.
func runsText(s scenario.Summary) string {
	text := cli.Plural(s.Runs(), "run")
	if s.Solos > 0 {
		text += fmt.Sprintf(", %d of them of one flow alone (solo)", s.Solos*s.Repetitions)
	}
	return text + fmt.Sprintf("; %s of traffic, building and calibrating not counted", s.Traffic.Round(time.Second))
}

func parameterTable(s *scenario.Scenario) record.Table {
	t := record.Table{Title: "Parameters", Columns: []string{"name", "values"}}
	for _, p := range s.Parameters {
		t.Rows = append(t.Rows, []string{p.Name, strings.Join(p.Values, ", ")})
	}
	if s.Fallback != nil {
		t.Rows = append(t.Rows, []string{s.Fallback.Parameter, "the first that this machine carries of " + strings.Join(s.Fallback.Values, ", ")})
	}
	return t
}

func linkTable(cell *scenario.Cell) record.Table {
	t := record.Table{Title: "Links of the first combination", Columns: []string{"link", "from", "to", "rate", "delay", "loss", "queue"}}
	for _, l := range cell.Links {
		if l.Plain {
			t.Rows = append(t.Rows, []string{l.Name, l.A, l.B, "plain", "", "", ""})
			continue
		}
		t.Rows = append(t.Rows, append([]string{l.Name, l.A, l.B}, directionCells(l.Forward)...), append([]string{"", l.B, l.A}, directionCells(l.Reverse)...))
	}
	return t
}

func limitTable(cell *scenario.Cell) record.Table {
	t := record.Table{Title: "Limits of the first combination", Columns: []string{"limit", "host", "direction", "rate", "by"}}
	for _, l := range cell.Limits {
		t.Rows = append(t.Rows, []string{l.Name, l.Host, l.Direction.String(), l.Rate.String(), string(l.Mechanism)})
	}
	return t
}

// nodeTable shows nodes of IOAM domains as they are in the last combination: the first is often
// without.
func nodeTable(cells []scenario.Cell) record.Table {
	t := record.Table{Title: "IOAM nodes of the last combination", Columns: []string{"node", "links", "namespaces", "puts in"}}
	for _, n := range cells[len(cells)-1].Nodes {
		if !n.IOAM.On() {
			continue
		}
		interfaces, namespaces, puts := n.IOAM.Setup.Words()
		t.Rows = append(t.Rows, []string{n.Name, strings.Join(interfaces, ", "), strings.Join(namespaces, ", "), strings.Join(puts, "; ")})
	}
	return t
}

func directionCells(d link.Direction) []string {
	rate, delay := "unlimited", d.Delay.String()
	if d.Rate > 0 {
		rate = d.Rate.String()
	}
	if d.Jitter > 0 {
		delay += " ± " + d.Jitter.String()
	}
	var queue []string
	if d.Queue.Bytes > 0 {
		queue = append(queue, d.Queue.Bytes.String())
	}
	if d.Queue.Packets > 0 {
		queue = append(queue, fmt.Sprintf("%d packets", d.Queue.Packets))
	}
	if d.Queue.Managed() {
		queue = append(queue, string(d.Queue.Discipline))
	}
	if d.Queue.ECN > 0 {
		queue = append(queue, "ECN above "+d.Queue.ECN.String())
	}
	if len(d.Schedule) > 0 {
		rate += fmt.Sprintf(", %d steps in %s", len(d.Schedule), d.Cycle())
	}
	return []string{rate, delay, d.Loss.Words(), strings.Join(queue, ", ")}
}

func trafficTable(cell *scenario.Cell) record.Table {
	t := record.Table{Title: "Traffic of the first combination", Columns: []string{"phase", "flow", "from", "to", "traffic", "starts", "lasts"}}
	for _, phase := range cell.Phases {
		for _, f := range phase.Flows {
			t.Rows = append(t.Rows, []string{phase.Name, f.Name, f.From, f.To, flowText(f), f.Start.String(), f.Duration.String()})
		}
		for _, s := range phase.Streams {
			what := fmt.Sprintf("%g frames/s of %d bytes, IPv%d", s.Rate, s.FrameSize, s.Family)
			if s.Count > 1 {
				what += fmt.Sprintf(", %d streams", s.Count)
			}
			t.Rows = append(t.Rows, []string{phase.Name, s.Name, s.From, s.To, what, s.Start.String(), s.Duration.String()})
		}
	}
	return t
}

func flowText(f traffic.Flow) string {
	parts := []string{string(f.Kind)}
	if f.IP() == 6 {
		parts = append(parts, "IPv6")
	}
	if f.Congestion != "" {
		parts = append(parts, f.Congestion)
	}
	if f.Streams > 1 {
		parts = append(parts, fmt.Sprintf("%d streams", f.Streams))
	}
	if f.Rate > 0 {
		parts = append(parts, f.Rate.String())
	}
	if f.Kind == traffic.Request {
		parts = append(parts, fmt.Sprintf("%s for %s, %d at once", f.Response, f.Request, f.Concurrency))
	}
	if f.Load != nil {
		parts = append(parts, f.Load.String())
	}
	if f.Command != nil {
		parts = append(parts, f.Command.Run)
	}
	if f.Bytes > 0 {
		parts = append(parts, f.Bytes.String())
	}
	return strings.Join(parts, ", ")
}

func expectationTable(s *scenario.Scenario) record.Table {
	t := record.Table{Title: "Expectations", Columns: []string{"statement", "metric", "where"}}
	for _, e := range s.Expect {
		var where []string
		for _, name := range slices.Sorted(maps.Keys(e.Where)) {
			where = append(where, name+"="+e.Where[name])
		}
		t.Rows = append(t.Rows, []string{e.Name, e.Metric, strings.Join(where, " ")})
	}
	return t
}

// about prints a duration in the precision of a person waiting.
func about(d time.Duration) string {
	if d < time.Minute {
		return d.Round(time.Second).String()
	}
	return strings.TrimSuffix(d.Round(5*time.Second).String(), "0s")
}
