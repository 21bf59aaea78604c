// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"bytes"
	"encoding/json"
	"errors"
	"testing"
	"time"
	"weir/core/engine"

	"github.com/google/go-cmp/cmp"

	"weir/core/module"
	"weir/core/policy"
	"weir/kernel/sockdiag"
)

// The streamed document equals the one of encoding/json.
func TestTheStatusStreamEqualsTheWholeDocument(t *testing.T) {
	const hostile = `"scopes":[],"modules":[],"rows":[]<&>` + "\u2028"
	columns := []module.Column{{Name: "packets", Help: hostile, Kind: module.Counter}, {Name: "delay", Kind: module.Histogram}, {Name: "limit", Kind: module.Gauge}}
	scope := engine.ScopeStatus{Scope: policy.Scope{Name: hostile, Parent: "p", Selector: policy.Selector{Kind: "cgroup", Text: "/a"}}, State: "enforced", Escaped: []sockdiag.Escape{{PID: 1, Command: hostile}}}
	row := module.Row{Scope: hostile, Part: "egress", Promise: "10 Mbit/s", Values: []module.Value{module.Counted(1 << 60), module.HistogramValue(module.Buckets{Sum: 1.5}), {}}}
	for name, s := range map[string]engine.Status{
		"empty": {Format: "weir-status/3", Scopes: []engine.ScopeStatus{}, Modules: []engine.ModuleStatus{}},
		"modules without rows": {Format: "weir-status/3", Scopes: []engine.ScopeStatus{scope}, Modules: []engine.ModuleStatus{
			{Module: "a", Rows: []engine.RowStatus{}}, {Module: "b", Columns: columns, Rows: []engine.RowStatus{}, Host: engine.Values{"x": module.Measured(0.5)}, Notes: []string{hostile}}}},
		"all": {Format: "weir-status/3", Enforced: true, Applied: time.Unix(1, 0), Scopes: []engine.ScopeStatus{scope, scope}, Controller: &engine.Controller{Problem: hostile},
			Modules: []engine.ModuleStatus{{Module: "a", Columns: columns, Part: "direction", Rows: []engine.RowStatus{}, Report: module.Report{Rows: []module.Row{row, row, {Scope: "unknown"}}}}}},
	} {
		t.Run(name, func(t *testing.T) {
			var got, want bytes.Buffer
			if err := writeStatus(s, &got); err != nil {
				t.Fatal(err)
			}
			for i := range s.Modules {
				s.Modules[i].FillRows()
			}
			encoder := json.NewEncoder(&want)
			encoder.SetEscapeHTML(false)
			if err := encoder.Encode(s); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want.String(), got.String()); diff != "" {
				t.Errorf("(-whole +pieces):\n%s", diff)
			}
		})
	}
	if err := writeStatus(engine.Status{}, full{}); err == nil {
		t.Error("a failed write is no error")
	}
}

type full struct{}

func (full) Write([]byte) (int, error) { return 0, errors.New("full") }
