// SPDX-License-Identifier: Apache-2.0

package room

// Inspector is a Plane that can compare what it does to the host with what was promised without
// sending anything: weir prove asks it beside the flows of scopes.
type Inspector interface {
	// Inspect looks at a state in force. seed is of what it chooses at random.
	Inspect(have State, seed uint64) ([]Inspection, error)
}

// Inspection is one promise that was looked at.
type Inspection struct {
	Check    string   `json:"check"`
	Promise  string   `json:"promise"`
	Looked   string   `json:"looked_at"` // at what, in words with numbers
	Verdict  Verdict  `json:"verdict"`   // Holds, Fails or CannotSay
	Reason   string   `json:"reason,omitempty"`
	Examples []string `json:"examples,omitempty"` // of what differs
}
