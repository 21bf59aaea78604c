// SPDX-License-Identifier: Apache-2.0

package module

import "context"

// Inspector is a Plane that verifies its effect on the host without the flows of scopes: by reading
// state, or by own packets through its devices that no receiver gets.
type Inspector interface {
	// Inspect checks an active state in the calling thread's network namespace. seed seeds random
	// choices. When ctx ends it returns the results so far.
	Inspect(ctx context.Context, have State, seed uint64) ([]Inspection, error)
}

// Inspection is the result for one promise.
type Inspection struct {
	Check    string   `json:"check"`
	Promise  string   `json:"promise"`
	Looked   string   `json:"looked_at"` // the examined state or packets, with numbers
	Verdict  Verdict  `json:"verdict"`   // Holds, Fails, CannotSay or InShadow
	Reason   string   `json:"reason,omitempty"`
	Examples []string `json:"examples,omitempty"` // of differences
}
