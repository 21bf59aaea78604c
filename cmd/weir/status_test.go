// SPDX-License-Identifier: Apache-2.0

package main

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"weir/internal/daemon"
	"weir/internal/room"
)

// A table has no columns of what none of its scopes has, and no zeros for what one has not.
func TestStatusLeavesOutWhatNoScopeHas(t *testing.T) {
	columns := []room.Column{{Name: "given", Title: "given it"}, {Name: "held", Title: "held"}}
	row := func(name string, given, held room.Value) daemon.RowStatus {
		return daemon.RowStatus{Scope: name, Promise: name, Values: map[string]room.Value{"given": given, "held": held}}
	}
	none := room.Value{}
	for _, test := range []struct {
		rows  []daemon.RowStatus
		heads []string
		cells []string // of the first row, of the columns
	}{
		{[]daemon.RowStatus{row("a", none, room.Counted(2))}, []string{"held"}, []string{"2"}},
		{[]daemon.RowStatus{row("a", none, room.Counted(2)), row("b", room.Counted(1), none)}, []string{"given it", "held"}, []string{"", "2"}},
		{[]daemon.RowStatus{row("a", none, none)}, []string{"given it", "held"}, []string{"", ""}},
	} {
		table := statusTable(daemon.Status{}, daemon.RoomStatus{Columns: columns, Heading: "treatment", Rows: test.rows})
		end := len(table.Columns) - 1 // the state
		if diff := cmp.Diff(test.heads, table.Columns[3:end]) + cmp.Diff(test.cells, table.Rows[0][3:end]); diff != "" {
			t.Error(diff)
		}
	}
}
