// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"strings"
	"testing"
	"weir/kernel/testutil"

	"weir/core/match"
	"weir/core/policy"
	"weir/core/selector"
)

// bound returns the binding of the interface with an index.
func bound(index uint64) selector.Binding {
	return selector.Binding{Key: match.Key{Kind: match.Interface, Number: index}}
}

// A new device with the same name is not bound, and neither is a unit's cgroup in another slice.
func TestStatusOfRecreatedUnitsAndDevices(t *testing.T) {
	was := held{Scope: policy.Scope{Selector: policy.Selector{Kind: "interface", Text: "wan", Words: "interface wan"}}, Bound: bound(7)}
	for _, test := range []struct {
		now  selector.Binding
		want string
	}{
		{bound(7), "enforced"},
		{bound(8), "not bound: interface wan is another one than was treated; apply the policy again"},
		{selector.Binding{Missing: "there is no interface wan"}, "waiting: there is no interface wan"},
	} {
		if got := stateOf(was, test.now, true); got != test.want {
			t.Errorf("%+v: %q, want %q", test.now, got, test.want)
		}
	}
	e := setup(t)
	one, two := testutil.Mkdir(t, e.CgroupRoot, "one.slice"), testutil.Mkdir(t, e.CgroupRoot, "two.slice")
	job := scope("job: {unit: job.service, egress: {rate: 1Mbit, mode: police}}")
	path := testutil.Mkdir(t, one, "job.service")
	apply(t, e, job)
	testutil.Remove(t, path)
	testutil.Mkdir(t, two, "job.service")
	if got := states(t, e)["job"]; !strings.HasPrefix(got, "not bound: unit job.service is another") {
		t.Error(got)
	}
}
