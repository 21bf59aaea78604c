// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"sync"
	"time"

	"weir/core/engine"
)

// escapeAge limits how long scrapes reuse the result of a search: reading the open files of every
// process costs more than reading counters.
const escapeAge = 15 * time.Second

// escapes caches the number of escaped sockets per scope.
type escapes struct {
	mu     sync.Mutex // guards the rest
	at     time.Time
	counts map[string]int
}

// of returns the counts for the scopes of a status, or nil if they are not available.
func (x *escapes) of(e *engine.Engine, status engine.Status) map[string]int {
	x.mu.Lock()
	defer x.mu.Unlock()
	if now := time.Now(); now.Sub(x.at) > escapeAge {
		x.at, x.counts = now, nil
		status.Scopes = append([]engine.ScopeStatus(nil), status.Scopes...) // keep the caller's
		if e.FindEscapes(&status) == nil {
			x.counts = map[string]int{}
			for _, s := range status.Scopes {
				if s.Escaped != nil {
					x.counts[s.Name] = len(s.Escaped)
				}
			}
		}
	}
	return x.counts
}
