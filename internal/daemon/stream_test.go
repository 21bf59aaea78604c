// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"bytes"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"weir/internal/kernel/sockdiag"
	"weir/internal/room"
	"weir/policy"
)

// What is written piece by piece is what encoding/json writes of the whole.
func TestAStatusIsWrittenAsAWhole(t *testing.T) {
	const hostile = `"scopes":[],"rooms":[],"rows":[]<&>` + "\u2028"
	columns := []room.Column{{Name: "packets", Help: hostile, Kind: room.Counter}, {Name: "delay", Kind: room.Histogram}, {Name: "limit", Kind: room.Gauge}}
	scope := ScopeStatus{Scope: policy.Scope{Name: hostile, Parent: "p", Selector: policy.Selector{Kind: "cgroup", Text: "/a"}}, State: "enforced", Escaped: []sockdiag.Escape{{PID: 1, Command: hostile}}}
	row := room.Row{Scope: hostile, Part: "egress", Promise: "10 Mbit/s", Values: []room.Value{room.Counted(1 << 60), room.Spread(room.Buckets{Sum: 1.5}), {}}}
	for name, s := range map[string]Status{
		"empty": {Format: formatStatus, Scopes: []ScopeStatus{}, Rooms: []RoomStatus{}},
		"rooms without rows": {Format: formatStatus, Scopes: []ScopeStatus{scope}, Rooms: []RoomStatus{
			{Room: "a", Rows: []RowStatus{}}, {Room: "b", Columns: columns, Rows: []RowStatus{}, Host: Values{"x": room.Measured(0.5)}, Notes: []string{hostile}}}},
		"all": {Format: formatStatus, Enforced: true, Applied: time.Unix(1, 0), Scopes: []ScopeStatus{scope, scope}, Controller: &Controller{Problem: hostile},
			Rooms: []RoomStatus{{Room: "a", Columns: columns, Part: "direction", Rows: []RowStatus{}, report: room.Report{Rows: []room.Row{row, row, {Scope: "unknown"}}}}}},
	} {
		t.Run(name, func(t *testing.T) {
			var got, want bytes.Buffer
			if err := s.write(&got); err != nil {
				t.Fatal(err)
			}
			for i := range s.Rooms {
				s.Rooms[i].tell()
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
	if err := (Status{}).write(full{}); err == nil {
		t.Error("a reader that has gone is no error")
	}
}

type full struct{}

func (full) Write([]byte) (int, error) { return 0, errors.New("full") }
