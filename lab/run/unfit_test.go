// SPDX-License-Identifier: Apache-2.0

package run

import (
	"strings"
	"testing"

	"weir/internal/fault"
)

// A missing program is not reported as a lack of capacity.
func TestAProgramThatIsNotThereIsToBeInstalled(t *testing.T) {
	gate := fakeGate{calibrate: func(*Bench) []string {
		return []string{"flow rsync broke off: its server ended with exit status 127: sh: rsync: not found"}
	}}
	outcome, err := execute(t, t.Context(), small, Options{Gate: gate})
	if fault.Of(err) != fault.Testbed || !strings.Contains(fault.Advice(err), "install the program") || len(outcome.Notes) != 0 {
		t.Errorf("error %v with advice %q, notes %q", err, fault.Advice(err), outcome.Notes)
	}
}
