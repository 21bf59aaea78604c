// SPDX-License-Identifier: Apache-2.0

package link

import (
	"weir/internal/fault"
)

// CheckDirection rejects invalid values: shares outside 0 to 1, negative times, unknown loss
// models.
func CheckDirection(d Direction) error {
	usage := func(format string, args ...any) error {
		return fault.New(fault.Usage, "correct the link's description", format, args...)
	}
	shares := []struct {
		name  string
		value float64
	}{
		{"reorder", d.Reorder}, {"duplicate", d.Duplicate}, {"corrupt", d.Corrupt},
	}
	for _, s := range shares {
		if !(s.value >= 0 && s.value <= 1) { // NaN too
			return usage("%s %v is not between 0 and 1", s.name, s.value)
		}
	}
	switch {
	case d.Delay < 0 || d.Jitter < 0:
		return usage("a delay or jitter is negative")
	case d.Queue.Packets < 0:
		return usage("a queue of %d packets", d.Queue.Packets)
	}
	switch d.Shape {
	case "", Uniform, Normal, Pareto:
	default:
		return usage("jitter shape %q is not known", d.Shape)
	}
	if err := checkQueue(d); err != nil {
		return err
	}
	if err := checkSchedule(d); err != nil {
		return err
	}
	return d.Loss.Check()
}
