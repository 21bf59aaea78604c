// SPDX-License-Identifier: Apache-2.0

package run

import (
	"fmt"
	"os"
	"path/filepath"

	"weir/internal/fault"
	"weir/lab/link"
)

// capture begins the packet traces of a run, if they are asked for. They are complete when the
// bench is closed.
func (e *execution) capture(bench *Bench, result *Result) ([]Trace, error) {
	if e.options.Capture == "" || bench.Carrying == nil {
		return nil, nil
	}
	capturing, able := bench.Carrying.(link.Capturing)
	if !able {
		return nil, fault.New(fault.Testbed, "use --carrier emulator", "%s keeps no packet traces", bench.Carrying.Mechanism())
	}
	folder, err := os.MkdirTemp(e.options.Capture, fmt.Sprintf("run-%d-%d-", result.Repetition, result.Attempt))
	if err != nil {
		return nil, fmt.Errorf("make a folder for packet traces: %w", err)
	}
	if err := capturing.Capture(folder, e.options.CaptureOctets); err != nil {
		return nil, err
	}
	var traces []Trace
	for _, cable := range Cables(bench.Cell) {
		traces = append(traces, Trace{cable.Name, filepath.Join(folder, cable.Name+".pcapng")})
	}
	return traces, nil
}

// noteMissing says how many frames the traces of a run do not have.
func (e *execution) noteMissing(result *Result) {
	var missing uint64
	for _, status := range result.Links {
		missing += status.Forward.Uncaptured + status.Reverse.Uncaptured
	}
	if missing > 0 {
		e.note("%d frames are missing in the packet traces of %s, repetition %d: the disk did not follow", missing, CellName(result.Cell), result.Repetition)
	}
}
