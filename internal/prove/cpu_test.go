// SPDX-License-Identifier: Apache-2.0

package prove

import "testing"

func TestProcessors(t *testing.T) {
	before, err := parseProcessors("cpu  10 0 10 70 10 0 0 0 5 0\ncpu0 1 2\n")
	if err != nil || before != (processors{100, 80}) {
		t.Fatalf("%+v, %v", before, err)
	}
	after := processors{200, 105}
	if busy := after.busySince(before); busy != 0.75 {
		t.Errorf("busy for %g of the time, want 0.75", busy)
	}
	for _, text := range []string{"", "cpu 1 2 3", "intr 1 2 3 4 5", "cpu a b c d e"} {
		if _, err := parseProcessors(text); err == nil {
			t.Errorf("%q was accepted", text)
		}
	}
}
