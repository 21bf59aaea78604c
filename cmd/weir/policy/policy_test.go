// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"io"
	"strings"
	"testing"

	"weir/cmd/weir/cli"
	"weir/core/engine"
	"weir/core/policy"
	"weir/internal/fault"
)

// treatment is one that says so.
type treatment string

func (t treatment) Summary() string { return string(t) }

func treated(name, how string) policy.Scope {
	return policy.Scope{Name: name, Selector: policy.Selector{Kind: "cgroup", Text: "/" + name, Words: "cgroup /" + name},
		Treatments: policy.Treatments{"toy": treatment(how)}}
}

func TestAPlanSaysWhatChangesByWhichMechanism(t *testing.T) {
	var stdout, stderr strings.Builder
	a := &cli.App{Stdout: &stdout, Stderr: &stderr, Format: "text"}
	scope := func(name string) policy.Scope { return treated(name, "egress 1 Mbit/s") }
	before, grown := scope("grows"), treated("grows", "egress 2 Mbit/s")
	out := engine.PolicyResult{Outcome: engine.Outcome{Changed: true, Waiting: []engine.Waiting{{Scope: "later", For: "there is no cgroup /later", Place: "p.yaml:4:5"}}}}
	moved := scope("moves")
	moved.Selector.Words = "cgroup /elsewhere"
	was := scope("moves")
	out.Steps = []engine.Step{
		{Step: policy.Step{Action: policy.Change, Scope: moved, Before: &was}, Mechanism: "cgroup_skb"},
		{Step: policy.Step{Action: policy.Change, Scope: grown, Before: &before}, Mechanism: "cgroup_skb"},
		{Step: policy.Step{Action: policy.Add, Scope: scope("later")}},
		{Step: policy.Step{Action: policy.Rebind, Scope: scope("back")}, Mechanism: "cgroup_skb", Rebound: true},
	}
	out.Host = []engine.ItemStep{{ItemStep: policy.ItemStep{Action: policy.Add, Item: policy.Item{Name: "link eth0", Treatment: treatment("classes")}}, Mechanism: "HTB"}}
	if err := outcome(a, out, "Plan"); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"change  grows  cgroup /grows                      egress 1 Mbit/s → egress 2 Mbit/s  cgroup_skb",
		"change  moves  cgroup /moves → cgroup /elsewhere  egress 1 Mbit/s  ",
		"waits: there is no cgroup /later (p.yaml:4:5)",
		"rebind  back ",
		"add            link eth0                          classes                            HTB",
		"becomes active when its object appears",
	} {
		if !strings.Contains(stdout.String(), want) {
			t.Errorf("the plan lacks %q:\n%s", want, stdout.String())
		}
	}
}

func TestAPolicyIsReadFromStandardInput(t *testing.T) {
	e, err := cli.NewEngine()
	if err != nil {
		t.Fatal(err)
	}
	a := &cli.App{Stdin: strings.NewReader("version: 1\nscopes: {a: {cgroup: /a, egress: 1Mbit}}\n")}
	if p, err := load(a, e, "-"); err != nil || len(p.Scopes) != 1 {
		t.Errorf("%+v, %v", p, err)
	}
	a.Stdin = strings.NewReader("version: 1\nscopes: {a: {cgroup: /a, egres: 1Mbit}}\n")
	if _, err := load(a, e, "-"); fault.Of(err) != fault.Usage || !strings.HasPrefix(err.Error(), "standard input:2:26: ") {
		t.Errorf("a mistake: %v", err)
	}
}

func TestAnApplyThatChangesNothingSaysThatItIsInForce(t *testing.T) {
	var stdout strings.Builder
	a := &cli.App{Stdout: &stdout, Format: "text"}
	if err := outcome(a, engine.PolicyResult{}, applied); err != nil {
		t.Fatal(err)
	}
	if text := stdout.String(); !strings.HasPrefix(text, "Active already\n") || !strings.Contains(text, "Nothing changes.") {
		t.Error(text)
	}
}

func TestAnApplyByHandSaysWhichFileTheHostFollows(t *testing.T) {
	running := &engine.Controller{Running: true, PID: 7, Policy: "/etc/weir/policy.yaml"}
	for _, test := range []struct {
		controller *engine.Controller
		file       string
		warned     bool
	}{
		{nil, "other.yaml", false},
		{&engine.Controller{PID: 7, Policy: "/etc/weir/policy.yaml"}, "other.yaml", false},
		{running, "/etc/weir/../weir/policy.yaml", false},
		{running, "other.yaml", true},
		{running, "", true},
	} {
		got := overrides(test.controller, test.file)
		if warned := len(got) == 1 && strings.Contains(got[0], "process 7, will apply /etc/weir/policy.yaml again"); warned != test.warned {
			t.Errorf("%+v and %q: %q", test.controller, test.file, got)
		}
	}
}

func TestStatusTellsOfAFirstApplyThatWasInterrupted(t *testing.T) {
	var stdout strings.Builder
	a := &cli.App{Stdout: &stdout, Format: "text"}
	if err := statusTables(a, engine.Status{Interrupted: true}); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(stdout.String(), "No policy is completely active: the first apply, or the last release, was interrupted.\nAn apply or a release was interrupted") {
		t.Error(stdout.String())
	}
}

func TestWhatIsNotInPlaceIsSaid(t *testing.T) {
	var stdout strings.Builder
	a := &cli.App{Stdout: &stdout, Format: "text"}
	scope := treated("a", "egress 1 Mbit/s")
	if err := statusTables(a, engine.Status{Scopes: []engine.ScopeStatus{{Scope: scope, State: "not attached"}},
		Modules: []engine.ModuleStatus{{Module: "toy", Rows: []engine.RowStatus{{Scope: "a"}}}}}); err != nil {
		t.Fatal(err)
	}
	out := engine.Outcome{Changed: true, Restored: true, Steps: []engine.Step{{Step: policy.Step{Action: policy.Keep, Scope: scope}}}}
	if err := outcome(a, engine.PolicyResult{Outcome: out}, "Plan"); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"run 'weir apply' or 'weir daemon', or end it with 'weir release'", "it is attached again"} {
		if strings.Count(stdout.String(), want) != 1 {
			t.Errorf("%q is not said once:\n%s", want, stdout.String())
		}
	}
}

func TestPlanFailsIfAnApplyWouldBeRejected(t *testing.T) {
	for _, format := range []string{"text", "json"} {
		var stdout strings.Builder
		a := &cli.App{Stdout: &stdout, Stderr: io.Discard, Format: format}
		err := outcome(a, engine.PolicyResult{Outcome: engine.Outcome{Rejected: []string{"an apply would be rejected: eth0: the qdisc sfq cannot be restored"}}}, "Plan")
		if fault.Of(err) != fault.Failed || !strings.Contains(err.Error(), "sfq") || stdout.Len() == 0 {
			t.Errorf("%s: status %d, %v, printed %q", format, fault.Of(err), err, stdout.String())
		}
	}
}
