// SPDX-License-Identifier: Apache-2.0

package module

import "math/bits"

// leastRoom is what maps grow by at least: they take memory for each entry, and some for each
// processor too.
const minEntries = 4

// Entries is the room of maps for so many entries: a quarter more at most, or leastRoom, so that
// they seldom grow.
func Entries(n int) int {
	n = max(n, 1)
	step := max(minEntries, 1<<bits.Len(uint(n-1))/8)
	return (n + step - 1) / step * step
}

// RoomFor is how many scopes the data plane of these states is to have room for.
func CapacityFor(states ...State) int {
	scopes := 0
	for _, s := range states {
		for _, b := range s.Scopes {
			scopes = max(scopes, b.Index+1)
		}
	}
	return min(Entries(scopes), MaxScopes)
}
