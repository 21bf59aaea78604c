// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"fmt"
	"sync"
	"time"

	"weir/core/match"
	"weir/kernel/sockdiag"
)

// FindEscapes fills in which sockets escape each scope that stands for a cgroup or a unit. It reads
// what every process of those cgroups has open, and asks each of their network namespaces once.
// Where the kernel cannot tell, the error is sockdiag.ErrNoCgroups and the status stays as it was.
func (e *Engine) FindEscapes(status *Status) error {
	have, err := e.store().read(current)
	if err != nil {
		return err
	}
	groups := map[string]uint64{}
	for _, h := range have.Scopes {
		if h.Bound.Kind == match.Cgroup && len(h.Treatments) > 0 {
			groups[h.Name] = h.Bound.Number
		}
	}
	if len(groups) == 0 {
		return nil
	}
	snapshot, err := sockdiag.TakeSnapshot()
	if err != nil {
		return err
	}
	found := map[string][]sockdiag.Escape{}
	for name, id := range groups {
		if found[name], err = snapshot.Escaped(id); err != nil {
			return fmt.Errorf("scope %s: %w", name, err)
		}
	}
	for i := range status.Scopes {
		if escaped, looked := found[status.Scopes[i].Name]; looked {
			status.Scopes[i].Escaped = append([]sockdiag.Escape{}, escaped...)
		}
	}
	return nil
}

// escapeAge is how long a scrape may reuse what an earlier one has found: reading every process's
// open files costs more than reading counters.
const escapeAge = 15 * time.Second

// escapes remembers how many sockets have escaped each scope, for scrapes that come often.
type escapes struct {
	mu     sync.Mutex // guards the rest
	at     time.Time
	counts map[string]int
}

// of returns the counts for the scopes of a status; nil where they cannot be had.
func (x *escapes) of(e *Engine, status Status) map[string]int {
	x.mu.Lock()
	defer x.mu.Unlock()
	if now := time.Now(); now.Sub(x.at) > escapeAge {
		x.at, x.counts = now, nil
		status.Scopes = append([]ScopeStatus(nil), status.Scopes...) // the caller's stays as it is
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
