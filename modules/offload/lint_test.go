// SPDX-License-Identifier: Apache-2.0

package offload

import (
	"strings"
	"testing"

	"weir/core/policy"
)

func TestTreatmentsThatAreGonePastAreWarnedOf(t *testing.T) {
	p := &policy.Policy{Scopes: []policy.Scope{
		{Name: "a", Selector: policy.Selector{Kind: "prefix"}}, {Name: "b", Selector: policy.Selector{Kind: "cgroup"}},
	}}
	if words := (Module{}).Lint(p); len(words) > 0 {
		t.Errorf("without offload: %q", words)
	}
	p.Host = []policy.Item{{Module: moduleName, Treatment: &Treatment{}}}
	if words := (Module{}).Lint(p); len(words) != 1 || !strings.Contains(words[0], "bypass the treatments of a:") {
		t.Errorf("%q", words)
	}
	p.Scopes = p.Scopes[1:]
	if words := (Module{}).Lint(p); len(words) > 0 {
		t.Errorf("sockets' own scopes: %q", words)
	}
	p.Host = append(p.Host, policy.Item{Module: "borders", Name: "border eth0"})
	if words := (Module{}).Lint(p); len(words) != 1 || !strings.Contains(words[0], "bypass the treatments of border eth0:") {
		t.Errorf("with a border: %q", words)
	}
}
