// SPDX-License-Identifier: Apache-2.0

package measure

import (
	"weir/measure/server"
	"weir/record"
)

func checkTable(checks []server.Check) record.Table {
	t := record.Table{Title: "This host as a measurement site", Columns: []string{"property", "state", "detail", "try"}}
	for _, c := range checks {
		t.Rows = append(t.Rows, []string{c.Name, string(c.State), c.Detail, c.Try})
	}
	return t
}
