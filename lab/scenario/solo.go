// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"maps"
	"slices"

	"weir/lab/traffic"
	"weir/record"
)

// SoloLabel is the label of what was measured of a flow alone; its value is the flow's name. No
// parameter may have this name, so a row with it is never one of flows together.
const SoloLabel = "solo"

// PhaseLabel tells the phases of a scenario with more than one apart. No parameter may have this
// name either.
const PhaseLabel = "phase"

// Contends says whether the flow takes part in the sharing of goodput, and so has a share and a
// harm: bulk and UDP flows do, a request flow and transfers send only what they are asked for.
func Contends(kind traffic.Kind) bool { return kind != traffic.Request && kind != traffic.Transfers }

// Solos returns the runs of single flows that go with a cell: of every phase with Solo one for each
// flow that contends, on the cell's own topology and with the phase's own duration and settle time,
// but without the other flows and streams. Their labels are the cell's and SoloLabel, and
// PhaseLabel where the cell has several phases.
func (c *Cell) Solos() []Cell {
	var all []Cell
	for _, phase := range c.Phases {
		if !phase.Solo {
			continue
		}
		for _, f := range phase.Flows {
			if Contends(f.Kind) {
				all = append(all, c.solo(phase, f))
			}
		}
	}
	return all
}

func (c *Cell) solo(phase Phase, f traffic.Flow) Cell {
	alone := *c
	alone.Labels = c.PhaseLabels(phase.Name)
	alone.Labels[SoloLabel] = f.Name
	alone.Phases = []Phase{{Name: phase.Name, Duration: phase.Duration, Settle: phase.Settle, Flows: []traffic.Flow{f}}}
	return alone
}

// Alone is the flow that the cell measures alone; "" for a cell of the sweep itself.
func (c *Cell) Alone() string { return c.Labels[SoloLabel] }

// PhaseLabels returns the labels of what is measured in a phase: a copy of the cell's, with the
// phase's name where the cell has several.
func (c *Cell) PhaseLabels(phase string) record.Labels {
	labels := record.Labels{}
	maps.Copy(labels, c.Labels)
	if len(c.Phases) > 1 {
		labels[PhaseLabel] = phase
	}
	return labels
}

// checkSolo refuses a phase whose flows have nobody to be compared with.
func (b *builder) checkSolo(f phaseFile, path string, phase Phase) {
	if !f.Solo {
		return
	}
	switch {
	case len(f.Flows)+len(f.Streams) < 2:
		b.complain(f.At("solo"), "add a second flow, or remove solo", "%s.solo: the phase has one flow, which is alone already", path)
	case !slices.ContainsFunc(phase.Flows, func(f traffic.Flow) bool { return Contends(f.Kind) }):
		b.complain(f.At("solo"), "add a bulk or udp flow, or remove solo", "%s.solo: no flow is of kind \"bulk\" or \"udp\", whose goodput alone would be compared", path)
	}
}
