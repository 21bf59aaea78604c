// SPDX-License-Identifier: Apache-2.0

package prove

import (
	"context"
	"strings"
	"testing"

	"weir/core/engine"
	"weir/core/module"
	"weir/record"
)

// looker is a toy that inspects the host.
type looker struct{ toy }

type lookerPlane struct{ toyPlane }

func (looker) Plane(module.Host) module.Plane { return lookerPlane{} }

// Inspect returns a result that depends on the seed.
func (lookerPlane) Inspect(_ context.Context, have module.State, seed uint64) ([]module.Inspection, error) {
	return []module.Inspection{{Check: "looks", Promise: "all is well", Looked: "one thing",
		Verdict: []module.Verdict{Holds, Fails, CannotSay}[seed], Reason: []string{"", "it is not", "it is dark"}[seed]}}, nil
}

// An inspection counts as a promise in every form of the result. A proof of a single scope runs
// none.
func TestModuleInspectionsCount(t *testing.T) {
	e := setup(t)
	apply(t, e, "host: {host: true, toy: 1}")
	e.Modules = []module.Module{looker{}}
	for seed, want := range []struct {
		failed  bool
		open    string
		outcome record.Outcome
	}{{false, "", record.Holds}, {true, "", record.Fails}, {false, "toy, looks: it is dark", record.NotMeasured}} {
		o := Options{Engine: e, Seed: uint64(seed)}
		r := runner{o: o, result: &Result{}}
		if err := r.inspect(t.Context()); err != nil {
			t.Fatal(err)
		}
		b := r.result.Bundle()
		if r.result.Failed() != want.failed || r.result.Open() != want.open || len(b.Verdicts) != 1 || b.Verdicts[0].Outcome != want.outcome {
			t.Errorf("seed %d: failed %t, open %q, verdicts %+v", seed, r.result.Failed(), r.result.Open(), b.Verdicts)
		}
		if table := b.Tables[len(b.Tables)-1]; !strings.Contains(strings.Join(table.Rows[0], " "), "all is well one thing") {
			t.Errorf("table %+v", table)
		}
	}
	alone := Options{Engine: e, Scope: "host"}
	if asked, err := alone.inspects(); asked || err != nil {
		t.Errorf("one scope alone: %t, %v", asked, err)
	}
	if all, err := (&engine.Engine{StateDir: t.TempDir(), Modules: e.Modules}).Inspect(t.Context(), 0); err != nil || len(all) > 0 {
		t.Errorf("without a policy: %+v, %v", all, err)
	}
}
