// SPDX-License-Identifier: Apache-2.0

package cputime

import "testing"

func TestProcessors(t *testing.T) {
	before, err := parse("cpu  10 0 10 70 10 0 0 0 5 0\ncpu0 1 2\n")
	if err != nil || before != (Spent{100, 80}) {
		t.Fatalf("%+v, %v", before, err)
	}
	after := Spent{200, 105}
	if busy := after.BusySince(before); busy != 0.75 {
		t.Errorf("busy for %g of the time, want 0.75", busy)
	}
	for _, text := range []string{"", "cpu 1 2 3", "intr 1 2 3 4 5", "cpu a b c d e"} {
		if _, err := parse(text); err == nil {
			t.Errorf("%q was accepted", text)
		}
	}
}
