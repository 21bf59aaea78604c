// SPDX-License-Identifier: Apache-2.0

package offload

import (
	"testing"

	"weir/internal/room"
)

// weir prove asks the room: what is in force holds, what goes astray does not, and is named.
func TestAnInspectionFindsWhatGoesAstray(t *testing.T) {
	r := newRouter(t, nil)
	r.apply()
	look := func() room.Inspection {
		t.Helper()
		all, err := r.plane.Inspect(r.state, 1)
		if err != nil || len(all) != 1 {
			t.Fatalf("%+v, %v", all, err)
		}
		return all[0]
	}
	if got := look(); got.Verdict != room.Holds || got.Looked == "" || len(got.Examples) > 0 {
		t.Errorf("what holds: %+v", got)
	}
	r.ip("route replace 100.64.0.0/16 via 10.2.0.3") // which nobody follows
	got := look()
	if got.Verdict == room.Holds || got.Reason == "" || got.Verdict == room.Fails && len(got.Examples) == 0 {
		t.Errorf("after a change that nobody follows: %+v", got)
	}
	if _, err := r.plane.Release(); err != nil {
		t.Fatal(err)
	}
	if got := look(); got.Verdict != room.Fails {
		t.Errorf("after a release: %+v", got)
	}
	if all, err := r.plane.Inspect(room.State{}, 1); err != nil || len(all) > 0 {
		t.Errorf("of no policy: %+v, %v", all, err)
	}
}
