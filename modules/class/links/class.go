// SPDX-License-Identifier: Apache-2.0

package links

import (
	"slices"
	"time"

	"weir/core/policy"
	"weir/internal/dscp"
	"weir/internal/units"
)

// Class is one queue of a link.
//
// Its leaf has credit while it sends less than Weight of the link's rate. The order of service is
// GÉANT's weighted round robin: high priority with credit, low with credit, high without, low
// without. Classes of the same priority share by deficit round robin in bytes.
type Class struct {
	Name     string            `json:"name"`
	DSCP     []dscp.DSCP       `json:"dscp,omitempty"`
	Weight   units.Probability `json:"weight"`            // guaranteed fraction of the link's rate
	Priority uint32            `json:"priority"`          // 0 to 7, lowest first
	Ceiling  units.BitRate     `json:"ceiling,omitempty"` // 0: the link's rate
	Queue    units.Duration    `json:"queue"`             // maximum queueing time at the ceiling
	Leaf     Leaf              `json:"leaf,omitempty"`    // "": fq_codel if ECN selects it
	ECN      ECN               `json:"ecn,omitempty"`
}

// Leaf is the qdisc of a class.
type Leaf string

// Qdiscs of a class.
const (
	Fifo    Leaf = "fifo"
	FqCodel Leaf = "fq_codel" // RFC 8290
	Cake    Leaf = "cake"     // tc-cake(8) without a rate: fair between pairs of hosts, then between their flows
)

// ECN selects marking instead of dropping.
type ECN string

const (
	MayMark   ECN = ""    // if the kernel has fq_codel, unless Leaf is set
	MustMark  ECN = "yes" // rejected on other kernels
	NeverMark ECN = "no"  // first in, first out, or fq_codel that drops
)

// keptIn returns the qdisc of the class on a kernel.
func (c Class) keptIn(kernel features) Leaf {
	switch {
	case c.Leaf != "":
		return c.Leaf
	case c.ECN == MustMark, c.ECN == MayMark && kernel.fqCodel:
		return FqCodel
	}
	return Fifo
}

// Classes of every link: the default class, and less than best effort.
const (
	bestEffort = "best-effort"
	lowEffort  = "lbe"
)

// Own is the name of Weir's own classes.
const Own = "weir"

const millisecond = units.Duration(time.Millisecond)

// lowEffortDSCP are LE (RFC 8622) and CS1, used by networks with QBSS.
var lowEffortDSCP = []dscp.DSCP{dscp.LowEffort, dscp.Scavenger}

// presets contains Weir's classes and the classes of two GÉANT experiments ("Less than Best
// Effort", tables 1 and 2), which use only DSCP 8 for less than best effort. GÉANT served a weight
// of 0 with one byte per round.
var presets = map[string][]Class{
	Own: {
		{Name: "network-control", DSCP: []dscp.DSCP{48, 56}, Weight: .05, Priority: 0, Queue: 50 * millisecond, ECN: NeverMark},
		{Name: "premium", DSCP: []dscp.DSCP{dscp.Expedited}, Weight: .30, Priority: 1, Queue: 10 * millisecond, ECN: NeverMark},
		{Name: bestEffort, Weight: .64, Priority: 2, Queue: 50 * millisecond},
		{Name: lowEffort, DSCP: lowEffortDSCP, Weight: .01, Priority: 7, Queue: 20 * millisecond},
	},
	"geant-1": geant(0, .05, .90, .01, .04),
	"geant-2": geant(1, .05, .90, 0, .05),
}

// geant returns classes with two priorities, or one if low is 0.
func geant(low uint32, be, ef, lbe, nc units.Probability) []Class {
	const queue = 50 * millisecond
	return []Class{
		{Name: "network-control", DSCP: []dscp.DSCP{48, 56}, Weight: nc, Queue: queue, ECN: NeverMark},
		{Name: "premium", DSCP: []dscp.DSCP{dscp.Expedited}, Weight: ef, Queue: queue, ECN: NeverMark},
		{Name: bestEffort, Weight: be, Queue: queue, ECN: NeverMark},
		{Name: lowEffort, DSCP: lowEffortDSCP, Weight: lbe, Priority: low, Queue: queue, ECN: NeverMark},
	}
}

// preset is a copy of a preset's classes.
func preset(name string) []Class {
	all := slices.Clone(presets[name])
	for i := range all {
		all[i].DSCP = slices.Clone(all[i].DSCP)
	}
	return all
}

// Treatment is the treatment of one link.
type Treatment struct {
	Device   string        `json:"device"`
	Rate     units.BitRate `json:"rate"`
	Overhead uint16        `json:"overhead"` // bytes per frame on the wire that the host does not see
	Preset   string        `json:"preset,omitempty"`
	Classes  []Class       `json:"classes"`
	Shadow   bool          `json:"shadow,omitempty"` // count only
}

// Summary describes the treatment in one line.
func (t *Treatment) Summary() string {
	text := "classes " + t.Preset
	for i, c := range t.Classes {
		if i > 0 {
			text += ","
		}
		text += " " + c.Name + " " + c.Weight.String()
		if c.Leaf != "" {
			text += " in " + string(c.Leaf)
		}
	}
	text += " of " + t.Rate.String()
	if t.Shadow {
		text += ", shadow"
	}
	return text
}

// ceiling returns the maximum rate of a class.
func (t *Treatment) ceiling(c Class) units.BitRate {
	if c.Ceiling == 0 {
		return t.Rate
	}
	return c.Ceiling
}

// DeviceNames returns the device.
func (t *Treatment) DeviceNames() []string { return []string{t.Device} }

// WithDeviceNames returns a copy with the kernel's name of the device.
func (t *Treatment) WithDeviceNames(now func(string) string) policy.Treatment {
	renamed := *t
	renamed.Device = now(t.Device)
	return &renamed
}
