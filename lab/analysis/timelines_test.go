// SPDX-License-Identifier: Apache-2.0

package analysis

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"weir/lab/link"
	"weir/lab/run"
	"weir/lab/scenario"
	"weir/record"
)

// points are series of two flows in four cells.
func points() *record.Bundle {
	b := &record.Bundle{}
	for _, cc := range []string{"bbr", "cubic"} {
		for _, loss := range []string{"0%", "1%"} {
			for _, flow := range []string{"left", "right"} {
				for at := range 3 {
					b.Points = append(b.Points, record.Point{Labels: record.Labels{"cc": cc, "loss": loss}, Subject: flow, Metric: scenario.SeriesCwnd,
						At: time.Duration(at) * time.Second, Value: float64(at)})
				}
			}
		}
	}
	return b
}

func TestTimelines(t *testing.T) {
	for _, c := range []struct {
		name            string
		series, subject string
		want            map[string][]string // curves by figure
	}{
		{"a figure for each cell", "", "", map[string][]string{"w-cc-bbr-loss-0": {"left", "right"}, "w-cc-bbr-loss-1": {"left", "right"}, "w-cc-cubic-loss-0": {"left", "right"}, "w-cc-cubic-loss-1": {"left", "right"}}},
		{"a curve per flow is the same", "subject", "", map[string][]string{"w-cc-bbr-loss-0": {"left", "right"}, "w-cc-bbr-loss-1": {"left", "right"}, "w-cc-cubic-loss-0": {"left", "right"}, "w-cc-cubic-loss-1": {"left", "right"}}},
		{"cells in one plot", "cc", "left", map[string][]string{"w-loss-0": {"bbr", "cubic"}, "w-loss-1": {"bbr", "cubic"}}},
		{"cells in one plot, with all flows", "loss", "", map[string][]string{"w-cc-bbr": {"0%, left", "0%, right", "1%, left", "1%, right"}, "w-cc-cubic": {"0%, left", "0%, right", "1%, left", "1%, right"}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := map[string][]string{}
			for _, f := range timelines(points(), scenario.FigureRequest{Name: "w", Metric: scenario.SeriesCwnd, X: "time", Series: c.series, Subject: c.subject}) {
				for _, curve := range f.Curves {
					got[f.Name] = append(got[f.Name], curve.Name)
					if len(curve.X) != 3 {
						t.Errorf("%s of %s has %d points", curve.Name, f.Name, len(curve.X))
					}
				}
			}
			if d := cmp.Diff(c.want, got); d != "" {
				t.Errorf("(-want +got):\n%s", d)
			}
		})
	}
}

// A queue's length belongs to the phase in which it was; queues that stay empty have no series.
func TestQueuesOverTime(t *testing.T) {
	cell := &scenario.Cell{Labels: record.Labels{"cc": "cubic"}, Phases: []scenario.Phase{{Name: "one"}, {Name: "two"}}}
	result := &run.Result{Cell: cell, Links: []link.Status{{Cable: "path"}, {Cable: "idle"}}, Depths: [][2][]uint32{{{10, 20, 30, 40}, {0, 0, 0, 0}}, {{0}, {0}}},
		Phases: []run.PhaseResult{
			{Phase: scenario.Phase{Name: "one", Duration: 200 * time.Millisecond}},
			{Phase: scenario.Phase{Name: "two", Duration: 100 * time.Millisecond}, Began: 300 * time.Millisecond},
		}}
	b := &record.Bundle{}
	addDepths(b, result)
	var got []string
	for _, p := range b.Points {
		got = append(got, fmt.Sprintf("%s %s %s %v", p.Labels["phase"], p.Subject, p.At, p.Value))
	}
	want := []string{"one path forward 100ms 10", "one path forward 200ms 20", "two path forward 400ms 40"}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}
