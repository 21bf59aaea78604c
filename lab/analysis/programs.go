// SPDX-License-Identifier: Apache-2.0

package analysis

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"weir/lab/run"
	"weir/lab/traffic"
	"weir/record"
)

// outputFolder is the folder of the programs' output among a bundle's attachments.
const outputFolder = "output"

// eachProgram calls f for every program of every run, rejected runs included.
func eachProgram(outcome *run.Outcome, f func(r *run.Result, flow traffic.Flow, p traffic.ProgramRun)) {
	for i := range outcome.Results {
		r := &outcome.Results[i]
		for _, phase := range r.Phases {
			for _, result := range phase.Flows {
				for _, p := range result.Programs {
					f(r, result.Flow, p)
				}
			}
		}
	}
}

// programTable shows the exit status of the programs of flows of kind command.
func programTable(outcome *run.Outcome) record.Table {
	t := record.Table{Title: "Programs", Columns: []string{"run", "repetition", "attempt", "flow", "program", "host", "ended", "after", "output"},
		Note: "Ended: the exit status of a program that ended by itself. Output is in the bundle, below attachments."}
	eachProgram(outcome, func(r *run.Result, flow traffic.Flow, p traffic.ProgramRun) {
		t.Rows = append(t.Rows, []string{run.CellName(r.Cell), strconv.Itoa(r.Repetition), strconv.Itoa(r.Attempt), flow.Name, p.Role, p.Host,
			endOf(p), record.Seconds.Format(p.Took.Round(time.Millisecond).Seconds()), outputName(r, flow, p)})
	})
	return t
}

func endOf(p traffic.ProgramRun) string {
	switch {
	case p.Stopped:
		return "with the flow"
	case p.Status < 0:
		return "killed"
	}
	return fmt.Sprintf("status %d", p.Status)
}

// outputs returns the programs' output.
func outputs(outcome *run.Outcome) (all []record.Attachment) {
	eachProgram(outcome, func(r *run.Result, flow traffic.Flow, p traffic.ProgramRun) {
		head := fmt.Sprintf("# %s of flow %s in %s, %s; ended: %s\n# %s\n", p.Role, flow.Name, p.Host, r.Began.UTC().Format(time.RFC3339), endOf(p),
			strings.ReplaceAll(p.Line, "\n", "\n# "))
		all = append(all, record.Attachment{Name: outputName(r, flow, p), Content: []byte(head + p.Output)})
	})
	return all
}

// outputName returns the attachment's name of a program's output.
func outputName(r *run.Result, flow traffic.Flow, p traffic.ProgramRun) string {
	return attachmentName(r, outputFolder, ".txt", flow.Name, p.Role)
}
