// SPDX-License-Identifier: Apache-2.0

package evidence

import (
	"fmt"
	"strings"

	"weir/record"
	"weir/tester/session"
	"weir/tester/spec"
)

// Verdicts compares the account with expectations: one verdict per expectation and stream. Values
// that need both ends are left to the joined account.
func Verdicts(a session.Account, expect []spec.Expectation) []record.Verdict {
	var all []record.Verdict
	for _, e := range expect {
		for _, s := range a.Streams {
			if e.Stream != "" && e.Stream != s.Name {
				continue
			}
			if v := verdict(a, e, s); v.Outcome != record.NotMeasured || s.Sent != nil && s.Received != nil {
				all = append(all, v)
			}
		}
	}
	return all
}

func verdict(a session.Account, e spec.Expectation, s session.Stream) record.Verdict {
	unit := record.Unit("")
	if m, known := spec.FindMetric(e.Metric); known {
		unit = m.Unit
	}
	v := record.Verdict{Name: e.Name, Labels: record.Labels{"stream": s.Name}, Expected: expected(e, unit), Measured: "–"}
	value, measured := Values(s, a.Clock)[e.Metric]
	if !measured {
		v.Outcome, v.Reason = record.NotMeasured, unmeasured(a, e, s)
		return v
	}
	v.Measured, v.Outcome = format(unit, value), record.Holds
	if e.Min != nil && value < *e.Min || e.Max != nil && value > *e.Max {
		v.Outcome = record.Fails
	}
	return v
}

func unmeasured(a session.Account, e spec.Expectation, s session.Stream) string {
	switch {
	case s.Unheard():
		return "no frame arrived"
	case strings.HasPrefix(e.Metric, "owd_") && a.Clock != session.OneWay:
		return "the clocks of the two ends are not known to be synchronised"
	}
	return "too few frames"
}

func expected(e spec.Expectation, unit record.Unit) string {
	switch {
	case e.Min != nil && e.Max != nil:
		return fmt.Sprintf("%s from %s to %s", e.Metric, format(unit, *e.Min), format(unit, *e.Max))
	case e.Min != nil:
		return fmt.Sprintf("%s at least %s", e.Metric, format(unit, *e.Min))
	case e.Max != nil:
		return fmt.Sprintf("%s at most %s", e.Metric, format(unit, *e.Max))
	}
	return e.Metric
}

// format prints shares as percentages and other values with their unit.
func format(unit record.Unit, value float64) string {
	if unit == record.Share {
		return percent(value)
	}
	return unit.Format(value)
}

func percent(share float64) string {
	if share > 0 && share < 1e-4 {
		return fmt.Sprintf("%.2g %%", 100*share)
	}
	return strings.TrimSuffix(strings.TrimRight(fmt.Sprintf("%.3f", 100*share), "0"), ".") + " %"
}
