// SPDX-License-Identifier: Apache-2.0

// Package view formats a status for people: titles, values and notes of status and top.
package view

import (
	"fmt"
	"time"

	"weir/core/engine"
	"weir/core/module"
	"weir/internal/units"
)

// NotAttached is the advice for a policy that is not completely attached.
const NotAttached = "The active policy is not completely attached: run 'weir apply' or 'weir daemon', or end it with 'weir release'."

const NoPolicy = "No policy is active."

// NoScopes describes a state without scopes and items.
func NoScopes(status engine.Status) string {
	if status.Orphaned {
		return "Programs of Weir are active without a state. 'weir release' ends them."
	}
	if status.Interrupted {
		return "No policy is completely active: the first apply, or the last release, was interrupted."
	}
	return NoPolicy
}

// ControllerNote describes the controller of the policy.
func ControllerNote(c *engine.Controller) []string {
	if c == nil {
		return nil
	}
	var notes []string
	if c.Running {
		notes = append(notes, fmt.Sprintf("The controller, process %d, follows %s.", c.PID, c.Policy))
	} else {
		notes = append(notes, fmt.Sprintf("Controller away since %s (%s ago); the active policy stays.",
			c.LastSeen.Local().Format(time.DateTime), time.Since(c.LastSeen).Round(time.Second)))
	}
	if c.Problem != "" {
		notes = append(notes, "The policy file changes nothing: "+c.Problem)
	}
	return notes
}

// Shown returns the columns of a table.
func Shown(all []module.Column, leftOut func(module.Column) bool) (columns []module.Column) {
	for _, c := range all {
		if c.Title != "" && !leftOut(c) {
			columns = append(columns, c)
		}
	}
	return columns
}

// Lead returns the leading headings of rows.
func Lead(r engine.ModuleStatus) []string {
	all := []string{"scope", "applies to"}
	if r.Part != "" {
		all = append(all, r.Part)
	}
	return all
}

func ScopesByName(status engine.Status) map[string]engine.ScopeStatus {
	all := make(map[string]engine.ScopeStatus, len(status.Scopes))
	for _, s := range status.Scopes {
		all[s.Name] = s
	}
	return all
}

// Total formats a value; "" if unknown.
func Total(c module.Column, v module.Value) string {
	switch {
	case !v.Known:
		return ""
	case v.Histogram != nil:
		return percentiles(*v.Histogram)
	}
	switch c.Unit {
	case module.Octets:
		return units.ByteSize(v.Number).String()
	case module.BitPerSecond:
		return units.BitRate(v.Number).Short()
	case module.Seconds:
		return Milliseconds(v.Number)
	}
	return fmt.Sprintf("%.0f", v.Number)
}

// Milliseconds prints a time.
func Milliseconds(seconds float64) string { return fmt.Sprintf("%.2f ms", seconds*1e3) }

// percentiles prints those of a histogram.
func percentiles(b module.Buckets) string { return RoundTrips(b.Percentile(0.5), b.Percentile(0.99)) }

// RoundTrips prints two percentiles in milliseconds, and a dash where there was no sample.
func RoundTrips(p50, p99 float64) string {
	if p99 == 0 {
		return "–"
	}
	return fmt.Sprintf("%.3g/%.3g ms", p50*1e3, p99*1e3)
}
