// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"maps"
	"slices"

	"weir/lab/traffic"
	"weir/record"
)

// SoloLabel is the label of figures of a flow alone; its value is the flow's name. No parameter may
// have this name, so a row with it is never one of flows together.
const SoloLabel = "solo"

// PhaseLabel distinguishes the phases of a scenario with several. No parameter may have this name
// either.
const PhaseLabel = "phase"

// Contends reports whether flows of the kind compete for goodput, and so have a share and a harm.
// Bulk and UDP flows do; request flows and transfers send a fixed amount.
func Contends(kind traffic.Kind) bool { return kind != traffic.Request && kind != traffic.Transfers }

// Solos returns a cell's runs of single flows: for every phase with Solo one per contending flow,
// on the cell's own topology and with the phase's duration and settle time, but without the other
// flows and streams. Their labels are the cell's with SoloLabel, and PhaseLabel if the cell has
// several phases.
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

// Alone is the flow of a solo cell; "" for a cell of the sweep.
func (c *Cell) Alone() string { return c.Labels[SoloLabel] }

// PhaseLabels returns the labels of a phase's figures: a copy of the cell's, with the phase's name
// if the cell has several.
func (c *Cell) PhaseLabels(phase string) record.Labels {
	labels := record.Labels{}
	maps.Copy(labels, c.Labels)
	if len(c.Phases) > 1 {
		labels[PhaseLabel] = phase
	}
	return labels
}

// checkSolo rejects a phase with solo but fewer than two contending flows.
func (b *builder) checkSolo(f phaseFile, path string, phase Phase) {
	if !f.Solo {
		return
	}
	switch {
	case len(f.Flows)+len(f.Streams) < 2:
		b.complain(f.At("solo"), "add a second flow, or remove solo", "%s.solo: the phase has one flow, which is alone already", path)
	case !slices.ContainsFunc(phase.Flows, func(f traffic.Flow) bool { return Contends(f.Kind) }):
		b.complain(f.At("solo"), "add a bulk or udp flow, or remove solo", "%s.solo: no flow is of kind \"bulk\" or \"udp\", and only these have a harm", path)
	}
}
