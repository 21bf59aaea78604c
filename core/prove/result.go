// SPDX-License-Identifier: Apache-2.0

package prove

import (
	"slices"
	"strings"
	"time"

	"weir/core/engine"
	"weir/core/module"
	"weir/core/policy"
	"weir/internal/direction"
	"weir/internal/units"
	"weir/record"
	"weir/record/stats"
)

// Format is the name of the JSON document of a [Result]; docs/formats/prove.md describes it.
const Format = "weir-prove/3"

// Verdicts of modules, and of scopes without a promise.
const (
	Holds     = module.Holds
	Under     = module.Under
	Leaks     = module.Leaks
	Loses     = module.Loses
	Fails     = module.Fails
	CannotSay = module.CannotSay

	Shadow                 = module.InShadow
	Members module.Verdict = "members" // a group, which has no traffic but its members'; they are proved one by one
)

// State is the state of a bypass of a scope.
type State string

const (
	Covered       State = "covered"
	Escapes       State = "escapes"    // traffic takes it
	CanEscape     State = "can escape" // it exists; nothing was seen to take it
	Slowed        State = "slowed"     // traffic that the treatment exempts is held back all the same
	NotApplicable State = "not applicable"
	Unknown       State = "cannot say"
)

// Promise is the promise of a check: a rate, words, or both.
type Promise struct {
	Rate  units.BitRate `json:"rate,omitempty"` // bit/s on the wire: IP packets and 14 bytes each
	Words string        `json:"words,omitempty"`
}

func (p Promise) String() string { return module.Check{Promise: p.Rate, Words: p.Words}.Promised() }

// Row is the result of one check on one path.
type Row struct {
	Scope     string              `json:"scope"`
	Selector  policy.Selector     `json:"selector"`
	Module    string              `json:"module"`
	Check     string              `json:"check"`
	Part      string              `json:"part,omitempty"`
	Direction direction.Direction `json:"direction"`
	Path      module.Path         `json:"path"`
	Promise   Promise             `json:"promise,omitzero"`
	// Measured is the mean over repetitions, in bit/s, and Share its part of the promised rate.
	Measured stats.Estimate  `json:"measured"`
	Share    float64         `json:"share,omitempty"`
	Samples  []module.Sample `json:"samples"`
	// Capacity is the capacity of the path outside all scopes in bit/s; 0 if unknown.
	Capacity units.BitRate `json:"capacity,omitempty"`
	// ExtraDelay is the smoothed round-trip time under load less the shortest, in seconds; of TCP
	// alone.
	ExtraDelay *stats.Estimate `json:"extra_delay,omitempty"`
	// Losses holds the loss and delay for users, for TCP.
	Losses *module.Losses `json:"losses,omitempty"`
	// Counters sums the growth of the module's counters over the repetitions.
	Counters map[string]uint64 `json:"counters,omitempty"`
	Verdict  module.Verdict    `json:"verdict"`
	Reason   string            `json:"reason,omitempty"`
	heading  string            // of Part
	shown    []string          // counters that tables show
}

// Name identifies the row.
func (r Row) Name() string { return named(r.Scope, r.Check, r.Part, r.Path.String()) }

// named joins the parts of a name.
func named(parts ...string) string {
	var there []string
	for _, part := range parts {
		if part != "" {
			there = append(there, part)
		}
	}
	return strings.Join(there, ", ")
}

// Bypass is the result of one bypass of one scope.
type Bypass struct {
	Scope  string `json:"scope"`
	Module string `json:"module"`
	Name   string `json:"bypass"`
	State  State  `json:"state"`
	Why    string `json:"why"` // one sentence: mechanism and observation
	// Charged is the ratio of charged to received bytes; absent if nothing was sent.
	Charged *float64 `json:"charged,omitempty"`
}

// Result holds all results of a proof.
type Result struct {
	Format   string    `json:"format"`
	Started  time.Time `json:"started"`
	Finished time.Time `json:"finished"`
	Peer     string    `json:"peer"`
	// Congestion is the congestion control of TCP flows unless the check leaves it to the scope; ""
	// is the host's default.
	Congestion string   `json:"congestion_control,omitempty"`
	Seed       uint64   `json:"seed"`
	Rows       []Row    `json:"rows"`
	Bypasses   []Bypass `json:"bypasses"`
	// Inspections holds the inspections of modules.
	Inspections []engine.Inspected `json:"inspections,omitempty"`
	Stopped     bool               `json:"stopped,omitempty"`
}

// Failed reports a broken promise or escaped traffic.
func (r *Result) Failed() bool {
	for _, row := range r.Rows {
		if row.outcome() == record.Fails {
			return true
		}
	}
	for _, b := range r.Bypasses {
		if b.State == Escapes || b.State == Slowed {
			return true
		}
	}
	for _, one := range r.Inspections {
		if one.Verdict == Fails {
			return true
		}
	}
	return false
}

// Open returns the first undetermined result with its reason; "" without any.
func (r *Result) Open() string {
	for _, row := range r.Rows {
		if row.Verdict == CannotSay {
			return row.Name() + ": " + row.Reason
		}
	}
	for _, b := range r.Bypasses {
		if b.State == Unknown {
			return b.Scope + ", " + b.Name + ": " + b.Why
		}
	}
	for _, one := range r.Inspections {
		if one.Verdict == CannotSay {
			return one.Module + ", " + one.Check + ": " + one.Reason
		}
	}
	return ""
}

// tested reports whether a row belongs to a scope with a treatment and own traffic.
func (r Row) tested() bool { return r.Verdict != Members && r.Verdict != Shadow }

// Untested returns why nothing was tested; "" otherwise.
func (r *Result) Untested() string {
	if len(r.Inspections) > 0 || len(r.Rows) == 0 || slices.ContainsFunc(r.Rows, Row.tested) {
		return ""
	}
	why := map[module.Verdict]string{Members: "is a group without own traffic", Shadow: "only counts"}
	var all []string
	for _, row := range r.Rows {
		if words := row.Scope + " " + why[row.Verdict]; !slices.Contains(all, words) {
			all = append(all, words)
		}
	}
	return strings.Join(all, "; ")
}
