// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"strings"
	"testing"

	"weir/core/engine"
	"weir/core/match"
	"weir/core/policy"
	"weir/kernel/testutil"
)

// stateMetric returns the state of a scope in the metrics, and the number of its state metrics.
func stateMetric(t *testing.T, e *engine.Engine, scope string) (state string, n int) {
	t.Helper()
	for _, metric := range metricsOf(t, e)["weir_scope_state"].GetMetric() {
		labels := map[string]string{}
		for _, label := range metric.GetLabel() {
			labels[label.GetName()] = label.GetValue()
		}
		if labels["scope"] == scope {
			state = labels["state"]
			n++
		}
	}
	return state, n
}

// Without a daemon the kernel may rebind a scope to a recreated cgroup. If it does not, the scope's
// state is "not bound" until the next apply.
func TestStatusOfARecreatedCgroup(t *testing.T) {
	e := setup(t)
	shadow := limited("b", 1e6)
	shadow.Shadow = true
	scopes := []policy.Scope{limited("a", 1e6), shadow, limited("late", 1e6)}
	want := func(label string, begin ...string) {
		t.Helper()
		got := states(t, e)
		for i, s := range scopes {
			if !strings.HasPrefix(got[s.Name], begin[i]) {
				t.Errorf("%s: %s is %q, want %q", label, s.Name, got[s.Name], begin[i])
			}
			word, _, _ := strings.Cut(begin[i], ":")
			if state, n := stateMetric(t, e, s.Name); n != 1 || state != strings.ReplaceAll(word, " ", "_") {
				t.Errorf("%s: metrics say %d times %q of %s, want %q", label, n, state, s.Name, word)
			}
		}
	}
	a, b := testutil.Mkdir(t, e.CgroupRoot, "a"), testutil.Mkdir(t, e.CgroupRoot, "b")
	apply(t, e, scopes...)
	want("applied", "enforced", "shadow", "waiting: there is no cgroup")
	testutil.Remove(t, a)
	want("removed", "waiting: there is no cgroup", "shadow", "waiting: there is no cgroup")
	testutil.Remove(t, b)
	for _, name := range []string{"a", "b", "late"} {
		testutil.Mkdir(t, e.CgroupRoot, name)
	}
	if match.CanRebind() == nil {
		want("recreated, rebound by the kernel", "enforced", "shadow", "enforced")
	} else {
		want("recreated", "not bound: cgroup /a is another one than was treated; apply the policy again",
			"not bound: cgroup /b is another", "not bound: there is a cgroup /late now; apply the policy again")
	}
	apply(t, e, scopes...)
	want("applied again", "enforced", "shadow", "enforced")
}
