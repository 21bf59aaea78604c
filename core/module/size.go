// SPDX-License-Identifier: Apache-2.0

package module

import "math/bits"

// minEntries is the minimum growth of maps: each entry costs memory, for some maps on every CPU.
const minEntries = 4

// Entries returns the capacity of maps for n entries: up to a quarter more, at least minEntries, so
// that they seldom grow.
func Entries(n int) int {
	n = max(n, 1)
	step := max(minEntries, 1<<bits.Len(uint(n-1))/8)
	return (n + step - 1) / step * step
}

// CapacityFor returns the scope capacity of a data plane for these states.
func CapacityFor(states ...State) int {
	scopes := 0
	for _, s := range states {
		for _, b := range s.Scopes {
			scopes = max(scopes, b.Index+1)
		}
	}
	return min(Entries(scopes), MaxScopes)
}
