// SPDX-License-Identifier: Apache-2.0

package prove

import (
	"context"
	"strings"

	"weir/core/engine"
	"weir/record"
)

// inspects reports whether modules inspect their effects. A proof of a single scope skips that.
func (o Options) inspects() (bool, error) {
	if o.Scope != "" {
		return false, nil
	}
	names, err := o.Engine.Inspectors()
	return len(names) > 0, err
}

// inspect runs the inspections before any flow.
func (r *runner) inspect(ctx context.Context) (err error) {
	asked, err := r.o.inspects()
	if err != nil || !asked || ctx.Err() != nil {
		return err
	}
	r.report("treatments of the host")
	r.result.Inspections, err = r.o.Engine.Inspect(ctx, r.o.Seed)
	return err
}

// InspectionTable shows the inspections of modules.
func (r *Result) InspectionTable() record.Table {
	t := record.Table{Title: "Inspections", Columns: []string{"module", "check", "promised", "looked at", "verdict"}}
	for _, one := range r.Inspections {
		t.Rows = append(t.Rows, []string{one.Module, one.Check, one.Promise, one.Looked, string(one.Verdict)})
	}
	return t
}

func inspected(one engine.Inspected) record.Verdict {
	return record.Verdict{Name: one.Check, Labels: record.Labels{"module": one.Module}, Expected: one.Promise, Measured: one.Looked,
		Reason: strings.Join(append([]string{one.Reason}, one.Examples...), "\n"), Outcome: Row{Verdict: one.Verdict}.outcome()}
}
