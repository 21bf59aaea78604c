// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"fmt"
	"net/http"
	"sync/atomic"
	"time"
)

// health is when the loop that keeps the policy in force was last at work. The zero value is a loop
// that has not begun.
type health struct{ last atomic.Int64 } // nanoseconds since 1970

// unhealthy is how long the loop may be at one thing.
const unhealthy = 30 * time.Second

func (h *health) seen(now time.Time) { h.last.Store(now.UnixNano()) }

// problem says why the loop is not at work, "" if it is. A policy file with a mistake is none: what
// was in force stays.
func (h *health) problem(now time.Time) string {
	last := h.last.Load()
	if last == 0 {
		return "the policy is not in force yet"
	}
	if away := now.Sub(time.Unix(0, last)); away > unhealthy {
		return fmt.Sprintf("nothing was done for %s", away.Round(time.Second))
	}
	return ""
}

// ServeHTTP answers 200, or 503 with the reason.
func (h *health) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	if problem := h.problem(time.Now()); problem != "" {
		w.WriteHeader(http.StatusServiceUnavailable)
		_, _ = fmt.Fprintln(w, problem)
		return
	}
	_, _ = fmt.Fprintln(w, "ok")
}
