// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"fmt"
	"strings"

	"weir/cmd/weir/view"
	"weir/core/engine"
	"weir/internal/direction"
	"weir/internal/units"
	"weir/modules/cc"
	"weir/modules/limit/scoped"
	"weir/record"
)

// statusDocument is the status with the commands of weir run.
type statusDocument struct {
	engine.Status
	Runs []running `json:"runs,omitempty"`
}

// running is a command with its counters of downloads.
type running struct {
	scoped.Running
	Downloads *cc.Received `json:"downloads,omitempty"` // nil without receiver-side control
}

func withDownloads(all []scoped.Running) (runs []running) {
	for _, r := range all {
		one := running{Running: r}
		if r.Holds != 0 {
			if counted, err := cc.ReadReceived(r.Holds); err == nil { // else it has ended
				one.Downloads = &counted
			}
		}
		runs = append(runs, one)
	}
	return runs
}

// downloads returns the cells of downloads: connections, window and queue.
func (r running) downloads() []string {
	d := r.Downloads
	switch {
	case d == nil:
		return []string{"", "", ""}
	case d.Steps == 0:
		return []string{fmt.Sprint(d.Connections), "", ""}
	}
	return []string{fmt.Sprint(d.Connections), units.ByteSize(d.Window()).String(), view.Milliseconds(d.Delay().Seconds())}
}

// runsTable shows the commands under 'weir run'.
func runsTable(runs []running) record.Table {
	table := record.Table{Title: "weir run", Columns: []string{"command", "process", "class", "direction", "rate", "admitted", "marked", "reduced", "dropped", "held", "window", "queue", "state"}}
	for _, r := range runs {
		state := "enforced"
		if r.Shadow {
			state = "shadow"
		}
		if len(r.Limits) == 0 {
			row := append([]string{strings.Join(r.Command, " "), fmt.Sprint(r.PID), r.Class, "", "", "", "", "", ""}, r.downloads()...)
			table.Rows = append(table.Rows, append(row, state))
		}
		for _, d := range direction.Both {
			rate, limited := r.Limits[d]
			if !limited {
				continue
			}
			row := []string{strings.Join(r.Command, " "), fmt.Sprint(r.PID), r.Class, d.String(), rate.String(), "", "", "", ""}
			if c := r.Counted[d]; c != nil {
				row[5], row[6], row[7], row[8] = units.ByteSize(c.Bytes).String(), fmt.Sprint(c.Marked), fmt.Sprint(c.Reduced), fmt.Sprint(c.Dropped)
			}
			table.Rows = append(table.Rows, append(append(row, r.downloads()...), state))
			r.Downloads = nil // once only
		}
	}
	return table
}
