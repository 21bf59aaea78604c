// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"strings"
	"testing"

	"weir/core/engine"
	"weir/core/module"
	"weir/core/policy"
	"weir/core/prove"
	"weir/internal/fault"
	"weir/record"
)

func TestProveRefusesWhatMakesNoSense(t *testing.T) {
	for _, test := range []struct {
		args string
		want string
	}{
		{"--repetitions 0", "--repetitions 0"},
		{"--duration 1h", "outside 100ms to 10m"},
		{"--token x", "--token alone"},
		{"--token-file x", "--token-file alone"},
		{"--listen 127.0.0.1:0 --token x --token-file y", "two secrets"},
		{"--listen 127.0.0.1:0 --token-file /dev/null", "is no regular file"},
		{"--listen nowhere", `listen on "nowhere"`},
		{"--listen 127.0.0.1:0 --scope a", "--listen accepts no other options"},
		{"--listen 127.0.0.1:0 policy.yaml", "--listen accepts no other options"},
		{"one.yaml two.yaml", `"two.yaml" is one argument too many`},
		{"--congestion nope", "--congestion nope: "},
	} {
		status, _, stderr := commands.Call(t, append([]string{"prove"}, strings.Fields(test.args)...)...)
		if status != fault.Usage || !strings.Contains(stderr, test.want) {
			t.Errorf("%s: status %d, %q does not say %q", test.args, status, stderr, test.want)
		}
	}
}

// A failed verdict determines the exit status before an open one.
func TestProofsStatus(t *testing.T) {
	row := func(v module.Verdict) prove.Row { return prove.Row{Scope: "a", Verdict: v} }
	way := func(s prove.State) prove.Bypass { return prove.Bypass{Scope: "a", State: s} }
	for _, test := range []struct {
		name   string
		result prove.Result
		want   fault.Status
	}{
		{"all holds", prove.Result{Rows: []prove.Row{row(prove.Holds), row(prove.Shadow), row(prove.Members)},
			Bypasses: []prove.Bypass{way(prove.Covered), way(prove.NotApplicable), way(prove.CanEscape)}}, fault.OK},
		{"a rate leaks", prove.Result{Rows: []prove.Row{row(prove.CannotSay), row(prove.Leaks)}}, fault.Failed},
		{"a rate is under", prove.Result{Rows: []prove.Row{row(prove.Under)}}, fault.Failed},
		{"a promise fails", prove.Result{Rows: []prove.Row{row(prove.Fails)}}, fault.Failed},
		{"traffic escapes", prove.Result{Bypasses: []prove.Bypass{way(prove.Escapes)}}, fault.Failed},
		{"a rate cannot be told", prove.Result{Rows: []prove.Row{row(prove.Holds), row(prove.CannotSay)}}, fault.Testbed},
		{"a way cannot be told", prove.Result{Bypasses: []prove.Bypass{way(prove.Unknown)}}, fault.Testbed},
		{"nothing but groups and shadow", prove.Result{Rows: []prove.Row{row(prove.Members), row(prove.Shadow)}}, fault.Testbed},
		{"stopped", prove.Result{Stopped: true}, fault.Failed},
	} {
		if got := fault.Of(proven(&test.result)); got != test.want {
			t.Errorf("%s: status %d, want %d", test.name, got, test.want)
		}
	}
}

func TestEveryVerdictIsInTheEvidence(t *testing.T) {
	r := prove.Result{
		Rows: []prove.Row{{Scope: "a", Verdict: prove.Holds}, {Scope: "b", Verdict: prove.Under}, {Scope: "c", Verdict: prove.CannotSay},
			{Scope: "d", Verdict: prove.Shadow}},
		Bypasses: []prove.Bypass{{Scope: "a", State: prove.Escapes}, {Scope: "a", State: prove.NotApplicable}},
	}
	var got []record.Outcome
	b := r.Bundle()
	for _, v := range b.Verdicts {
		got = append(got, v.Outcome)
	}
	want := []record.Outcome{record.Holds, record.Fails, record.NotMeasured, record.Fails}
	if len(got) != len(want) {
		t.Fatalf("outcomes %v, want %v", got, want)
	}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("outcomes %v, want %v", got, want)
		}
	}
	for _, test := range []struct {
		result prove.Result
		want   string
	}{
		{r, "of promises 1 hold, 1 fail, 1 unknown; of bypasses 1 taken"},
		{prove.Result{Rows: []prove.Row{{Verdict: prove.CannotSay}}, Bypasses: []prove.Bypass{{State: prove.Covered}}}, "of promises 1 unknown; of bypasses 1 closed"},
		{prove.Result{Bypasses: []prove.Bypass{{State: prove.CanEscape}, {State: prove.Covered}, {State: prove.NotApplicable}}},
			"nothing was promised; of bypasses 1 closed, 1 can be taken"},
		{prove.Result{}, "nothing was promised"},
	} {
		if said := inAll(&test.result); said != test.want {
			t.Errorf("in all: %q, want %q", said, test.want)
		}
	}
}

func TestAPolicyIsInForceIfNothingOfItWouldChange(t *testing.T) {
	step := func(a policy.Action) engine.Step {
		return engine.Step{Step: policy.Step{Action: a, Scope: policy.Scope{Name: "a"}}}
	}
	item := func(a policy.Action) engine.ItemStep {
		return engine.ItemStep{ItemStep: policy.ItemStep{Action: a, Item: policy.Item{Name: "link eth0"}}}
	}
	for want, plan := range map[string]engine.Outcome{
		"":                   {Steps: []engine.Step{step(policy.Keep)}, Host: []engine.ItemStep{item(policy.Keep)}},
		"change the scope a": {Steps: []engine.Step{step(policy.Keep), step(policy.Change)}},
		"remove link eth0":   {Steps: []engine.Step{step(policy.Keep)}, Host: []engine.ItemStep{item(policy.Remove)}},
	} {
		if got := differs(plan); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// A dry run lists a skipped check once, not once a path.
func TestADryRunListsASkippedCheckOnce(t *testing.T) {
	why := "its traffic is its members'"
	rows := dryRows([]provePlan{
		{Scope: "g", Check: "rate", Path: "TCP over IPv4", Sends: "nothing: " + why, Skipped: why},
		{Scope: "g", Check: "rate", Path: "UDP over IPv4", Sends: "nothing: " + why, Skipped: why},
		{Scope: "a", Check: "rate", Path: "TCP over IPv4", Sends: "1 connection"},
		{Scope: "a", Check: "rate", Path: "UDP over IPv4", Sends: "1 Mbit/s"},
	})
	members := prove.Row{Scope: "g", Verdict: prove.Members, Reason: why}
	if notes := reasons([]prove.Row{members, members}); len(notes) != 1 {
		t.Errorf("%q", notes)
	}
	if len(rows) != 3 || rows[0][3] != "" || rows[1][3] != "TCP over IPv4" {
		t.Errorf("%q", rows)
	}
}
