// SPDX-License-Identifier: Apache-2.0

package prove

import "testing"

// What a room has counted past its treatment is no promise kept.
func TestTrafficThatWentAroundIsAFailure(t *testing.T) {
	for n, want := range map[uint64]State{0: Covered, 4: Escapes} {
		b := judgeCounted(Bypass{Scope: anyScope, Why: "Packets of more scopes than one packet can be charged to."}, n)
		if b.State != want || (&Result{Bypasses: []Bypass{b}}).Failed() != (want == Escapes) {
			t.Errorf("%d packets: %s because %s, want %s", n, b.State, b.Why, want)
		}
	}
}
