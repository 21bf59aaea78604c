// SPDX-License-Identifier: Apache-2.0

package module

import "context"

// Inspector is a Plane that can compare what it does to the host with what was promised, beside the
// flows of scopes: by looking, or by packets that leave by its devices and that nobody receives.
type Inspector interface {
	// Inspect looks at a state in force, in the calling thread's network namespace. seed is of what
	// it chooses at random. What it has found when ctx ends is enough.
	Inspect(ctx context.Context, have State, seed uint64) ([]Inspection, error)
}

// Inspection is one promise that was looked at.
type Inspection struct {
	Check    string   `json:"check"`
	Promise  string   `json:"promise"`
	Looked   string   `json:"looked_at"` // at what, in words with numbers
	Verdict  Verdict  `json:"verdict"`   // Holds, Fails, CannotSay or InShadow
	Reason   string   `json:"reason,omitempty"`
	Examples []string `json:"examples,omitempty"` // of what differs
}
