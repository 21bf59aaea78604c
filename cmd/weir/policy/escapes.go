// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"fmt"

	"weir/core/engine"
)

// escapeNotes returns a warning with advice for each scope with escaped sockets.
func escapeNotes(status engine.Status) (notes []string) {
	for _, s := range status.Scopes {
		if n := len(s.Escaped); n > 0 {
			first := s.Escaped[0]
			notes = append(notes, fmt.Sprintf("Warning: %d sockets of processes in scope %s escape it, of process %d (%s) for instance: they were opened outside its cgroup and stay charged there. Restart the process inside the cgroup.",
				n, s.Name, first.PID, first.Command))
		}
	}
	return notes
}
