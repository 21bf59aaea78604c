// SPDX-License-Identifier: Apache-2.0

package offload

import (
	"testing"

	"weir/core/module"
	"weir/core/policy"
)

// weir prove inspects the module: an active table holds; a table that differs from the policy does
// not hold, and is named.
func TestAnInspectionFindsWhatGoesAstray(t *testing.T) {
	r := newRouter(t, nil)
	r.follow() // renews the lease during the inspection
	look := func(state module.State) module.Inspection {
		t.Helper()
		all, err := r.plane.Inspect(t.Context(), state, 1)
		if err != nil || len(all) != 1 {
			t.Fatalf("%+v, %v", all, err)
		}
		return all[0]
	}
	if got := look(r.state); got.Verdict != module.Holds || got.Looked == "" || len(got.Examples) > 0 {
		t.Errorf("what holds: %+v", got)
	}
	other := *treatmentOf(r.state)
	other.Except = []string{"100.64.0.0/16"}
	got := look(module.State{Host: []policy.Item{{Module: moduleName, Name: "offload", Treatment: &other}}})
	if got.Verdict != module.Fails || got.Reason == "" || len(got.Examples) == 0 {
		t.Errorf("where the kernel is to have what is forwarded: %+v", got)
	}
	if _, err := r.plane.Release(); err != nil {
		t.Fatal(err)
	}
	if got := look(r.state); got.Verdict != module.Fails {
		t.Errorf("after a release: %+v", got)
	}
	if all, err := r.plane.Inspect(t.Context(), module.State{}, 1); err != nil || len(all) > 0 {
		t.Errorf("of no policy: %+v, %v", all, err)
	}
}
