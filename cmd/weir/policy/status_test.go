// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"weir/core/engine"
	"weir/core/module"
)

// A table omits a column if no scope has its value. A missing value is a dash, not a zero.
func TestStatusOmitsEmptyColumns(t *testing.T) {
	columns := []module.Column{{Name: "given", Title: "given it"}, {Name: "held", Title: "held"}}
	row := func(name string, given, held module.Value) engine.RowStatus {
		return engine.RowStatus{Scope: name, Promise: name, Values: map[string]module.Value{"given": given, "held": held}}
	}
	none := module.Value{}
	for _, test := range []struct {
		rows  []engine.RowStatus
		heads []string
		cells []string // of the first row, of the columns
	}{
		{[]engine.RowStatus{row("a", none, module.Counted(2))}, []string{"held"}, []string{"2"}},
		{[]engine.RowStatus{row("a", none, module.Counted(2)), row("b", module.Counted(1), none)}, []string{"given it", "held"}, []string{"", "2"}},
		{[]engine.RowStatus{row("a", none, none)}, []string{"given it", "held"}, []string{"", ""}},
	} {
		table := statusTable(engine.Status{}, engine.ModuleStatus{Columns: columns, Heading: "treatment", Rows: test.rows})
		end := len(table.Columns) - 1 // the state
		if diff := cmp.Diff(test.heads, table.Columns[3:end]) + cmp.Diff(test.cells, table.Rows[0][3:end]); diff != "" {
			t.Error(diff)
		}
	}
}
