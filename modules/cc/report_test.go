// SPDX-License-Identifier: Apache-2.0

package cc

import (
	"testing"

	"weir/core/module"
)

// The report of a scope contains the columns of its treatment only.
func TestAScopeTellsOfItsTreatmentAlone(t *testing.T) {
	counts := Counts{Assigned: 1, Received: Received{Connections: 2, Steps: 1}}
	for _, test := range []struct {
		treatment      Treatment
		sent, received bool
	}{
		{Treatment{Control: "reno"}, true, false},
		{Treatment{Downloads: "rledbat"}, false, true},
		{Treatment{Control: "reno", Downloads: "rledbat"}, true, true},
	} {
		known := map[string]bool{}
		declared := fields()
		for i, v := range module.ValuesOf(declared, counted{counts, &test.treatment}) {
			known[declared[i].Name] = v.Known
		}
		for name, want := range map[string]bool{"assigned": test.sent, "no_ecn": test.sent, "chosen": test.sent, "failed": test.sent,
			"receivers": test.received, "no_timestamps": test.received, "slowdowns": test.received, "receive_window": test.received, "receive_delay": test.received} {
			if known[name] != want {
				t.Errorf("%s: %s is known: %t", test.treatment.Summary(), name, known[name])
			}
		}
	}
}
