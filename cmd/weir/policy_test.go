package main

import (
	"strings"
	"testing"

	"weir/internal/daemon"
	"weir/policy"
)

func TestAPlanSaysWhatChangesByWhichMechanism(t *testing.T) {
	var stdout, stderr strings.Builder
	a := &app{stdout: &stdout, stderr: &stderr, format: "text"}
	scope := func(name string) policy.Scope {
		return policy.Scope{Name: name, Applies: policy.Selector{Kind: policy.Cgroup, Text: "/" + name}, Egress: &policy.Rate{Rate: 1e6}}
	}
	before := scope("grows")
	grown := before
	grown.Egress = &policy.Rate{Rate: 2e6}
	out := daemon.PolicyResult{Outcome: daemon.Outcome{Changed: true, Waiting: []daemon.Waiting{{Scope: "later", For: "there is no cgroup /later", Place: "p.yaml:4:5"}}}}
	out.Steps = []daemon.Step{
		{Step: policy.Step{Action: policy.Change, Scope: grown, Before: &before}, Mechanism: "cgroup_skb"},
		{Step: policy.Step{Action: policy.Add, Scope: scope("later")}},
		{Step: policy.Step{Action: policy.Keep, Scope: scope("back")}, Mechanism: "cgroup_skb", Rebound: true},
	}
	if err := a.outcome(out, "Plan"); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"change     grows  cgroup /grows  egress 1 Mbit/s → egress 2 Mbit/s  cgroup_skb",
		"waits: there is no cgroup /later (p.yaml:4:5)",
		"bind anew  back ",
		"takes effect when what it names appears",
	} {
		if !strings.Contains(stdout.String(), want) {
			t.Errorf("the plan lacks %q:\n%s", want, stdout.String())
		}
	}
}
