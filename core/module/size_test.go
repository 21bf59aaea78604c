// SPDX-License-Identifier: Apache-2.0

package module

import "testing"

func TestCapacityGrowsByAQuarter(t *testing.T) {
	for n := range MaxScopes {
		if got := Entries(n); got < max(n, 1) || got > max(n+minEntries, n*5/4) {
			t.Fatalf("room for %d in place of %d", got, n)
		}
	}
}
