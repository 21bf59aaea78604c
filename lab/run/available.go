// SPDX-License-Identifier: Apache-2.0

package run

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"weir/internal/fault"
	"weir/kernel/probe"
	"weir/lab/domain"
	"weir/lab/fastpath"
	"weir/lab/limits"
	"weir/lab/scenario"
	"weir/modules/cc"
)

// available returns the cells with limits, fast paths and IOAM nodes that this kernel supports.
// Other cells are an error, or with KeepGoing a note.
func (e *execution) available(cells []scenario.Cell) ([]scenario.Cell, error) {
	var able []scenario.Cell
	var missing error
	for i := range cells {
		err := errors.Join(limits.Check(cells[i].Limits), limits.CheckClasses(&cells[i]), fastpath.Check(&cells[i]), domain.Check(&cells[i]))
		switch {
		case err == nil:
			able = append(able, cells[i])
		case e.options.KeepGoing && fault.Of(err) == fault.Testbed:
			missing = err
			e.note("%s was left out: %v", CellName(&cells[i]), err)
		default:
			return nil, fault.New(fault.Of(err), strings.TrimPrefix(fault.Advice(err)+leaveOut(err), "; "), "%s: %w", CellName(&cells[i]), err)
		}
	}
	if len(able) == 0 {
		return nil, missing
	}
	e.describeLimits(able)
	return able, nil
}

func leaveOut(err error) string {
	if fault.Of(err) != fault.Testbed {
		return ""
	}
	return "; or leave such cells out: --keep-going"
}

// describeLimits records the mechanisms of the limits.
func (e *execution) describeLimits(cells []scenario.Cell) {
	used := map[string]bool{}
	for i := range cells {
		for _, l := range cells[i].Limits {
			used[limits.Describe(l.Mechanism)] = true
		}
	}
	if len(used) > 0 {
		e.outcome.Mechanisms["limit"] = strings.Join(slices.Sorted(maps.Keys(used)), "; ")
	}
}

// installControls loads Weir's congestion controls that flows request by name and the kernel lacks.
// They disappear when this process ends, even if it is killed.
func (e *execution) installControls(cells []scenario.Cell) (remove func() error, err error) {
	var installed []*cc.Installed
	remove = func() error {
		var errs []error
		for _, control := range installed {
			errs = append(errs, control.Close())
		}
		return errors.Join(errs...)
	}
	for _, algorithm := range cc.Algorithms() {
		name := cc.DefaultName(algorithm)
		if !asked(cells, name) {
			continue
		}
		have, err := probe.CongestionControls()
		if err != nil {
			return remove, err
		}
		e.outcome.Mechanisms["congestion "+name] = "installed before"
		if slices.Contains(have, name) {
			continue
		}
		control, err := cc.Install(algorithm, cc.Options{})
		if err != nil {
			return remove, fmt.Errorf("flows ask for congestion control %s: %w", name, err)
		}
		installed = append(installed, control)
		e.outcome.Mechanisms["congestion "+name] = "BPF struct_ops, for the time of the run"
	}
	return remove, nil
}

// asked reports whether a flow of the cells uses the congestion control.
func asked(cells []scenario.Cell, name string) bool {
	for i := range cells {
		for _, phase := range cells[i].Phases {
			for _, flow := range phase.Flows {
				if flow.Congestion == name {
					return true
				}
			}
		}
	}
	return false
}
