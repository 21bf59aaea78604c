// SPDX-License-Identifier: Apache-2.0

package prove

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"weir/core/module"
	"weir/core/policy"
	"weir/kernel/rtnl"
	"weir/kernel/testutil"
	"weir/record"
)

// toy is a minimal module with a check: the traffic of its scopes arrives.
type toy struct{}

type toyKeys struct {
	Toy *int `yaml:"toy" doc:"Any number."`
}

type toyTreatment struct{}

func (*toyTreatment) Summary() string { return "toy" }

func (toy) Name() string                                    { return "toy" }
func (toy) Decode([]byte) (policy.Treatment, error)         { return &toyTreatment{}, nil }
func (toy) Mechanism(module.Bound) string                   { return "none" }
func (toy) Columns() module.Columns                         { return module.Columns{} }
func (toy) Plane(module.Host) module.Plane                  { return toyPlane{} }
func (toyPlane) Ready(module.State) error                   { return nil }
func (toyPlane) InPlace(module.State) (bool, error)         { return true, nil }
func (toyPlane) Apply(_, _ module.State) ([]string, error)  { return nil, nil }
func (toyPlane) Report(module.State) (module.Report, error) { return module.Report{}, nil }
func (toyPlane) Release() (bool, error)                     { return false, nil }

type toyPlane struct{}

func (toy) Grammar() policy.Grammar {
	return policy.Grammar{Module: "toy", Scope: toyKeys{}, Treats: []string{"toy"}, Read: func(d *policy.Draft) {
		for i := range d.Scopes {
			if d.Scopes[i].Has("toy") {
				d.Treat(&d.Scopes[i], &toyTreatment{})
			}
		}
	}}
}

// Checks is all that prove needs of a module.
func (toy) Checks(policy.Scope) []module.Check {
	return []module.Check{{Name: "passes", Words: "something arrives", Judge: func(s []module.Sample, _ module.Circumstances) (module.Verdict, string) {
		if s[0].Received == 0 {
			return module.Fails, "nothing arrived"
		}
		return module.Holds, s[0].Congestion
	}}}
}

// The process of every selector reaches the peer, and every form of the result contains the
// module's verdict.
func TestModuleAddsACheckInAFewLines(t *testing.T) {
	e := setup(t)
	testutil.Snapshot(t)
	host, elsewhere := testutil.Namespace(t, "host"), testutil.Namespace(t, "elsewhere")
	apply(t, e, "group: {cgroup: /a, toy: 1}", "user: {user: 4321, toy: 1}", "marked: {mark: 0x10, toy: 1}",
		"prefix: {prefix: 10.231.0.0/16, toy: 1}", "elsewhere: {netns: "+elsewhere.Name+", toy: 1}", "host: {host: true, toy: 1}",
		"own: {netns: "+host.Name+", toy: 1}")
	var result *Result
	if err := host.Do(func() (err error) {
		result, err = Run(t.Context(), Options{Engine: e, Duration: 100 * time.Millisecond, Repetitions: 1})
		return err
	}); err != nil {
		t.Fatal(err)
	}
	seen := map[string]int{}
	for _, row := range result.Rows {
		seen[row.Scope]++
		if row.Verdict != Holds || row.Module != "toy" || row.Check != "passes" || row.Capacity != 0 {
			t.Errorf("%s: %s because %s", row.Name(), row.Verdict, row.Reason)
		}
		if is := row.Reason == result.Congestion; row.Path.Protocol == module.TCP && !is || row.Path.Protocol == module.UDP && row.Reason != "" {
			t.Errorf("%s: the sender's congestion control is %q, asked for was %q", row.Name(), row.Reason, result.Congestion)
		}
	}
	if len(seen) != 7 || len(result.Bypasses) != 0 {
		t.Errorf("rows of %v, %d bypasses: nothing is charged", seen, len(result.Bypasses))
	}
	b := result.Bundle()
	if len(b.Tables) != 1 || b.Tables[0].Title != "toy, passes" || slices.Contains(b.Tables[0].Columns, "share") || len(b.Figures) != 0 {
		t.Errorf("tables %+v, %d figures", b.Tables, len(b.Figures))
	}
	if len(b.Verdicts) != len(result.Rows) || b.Verdicts[0].Name != "passes" || b.Verdicts[0].Outcome != record.Holds {
		t.Errorf("verdicts %+v", b.Verdicts)
	}
	text, err := json.Marshal(result.Rows[0])
	if err != nil || !strings.Contains(string(text), `"module":"toy","check":"passes","direction":"egress"`) {
		t.Errorf("%s, %v", text, err)
	}
	if err := with(elsewhere, func(conn *rtnl.Conn) error {
		devices, err := conn.Devices()
		for _, d := range devices {
			if strings.HasPrefix(d.Name, "weir") { // kernels create some devices in every namespace
				t.Errorf("left in the namespace: %+v", d)
			}
		}
		return err
	}); err != nil {
		t.Error(err)
	}
}
