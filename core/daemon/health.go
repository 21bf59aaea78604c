// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// health is when the loop that keeps the policy in force was last at work, and what of that fails
// since when. The zero value is a loop that has not begun.
type health struct {
	last    atomic.Int64 // nanoseconds since 1970
	mu      sync.Mutex
	failing map[duty]failure
}

// duty is what the loop does again and again.
type duty string

const (
	applying duty = "the policy file is not in force"
	binding  duty = "scopes are not bound"
)

type failure struct {
	since  time.Time
	reason error
}

// unhealthy is how long the loop may be at one thing, or fail at it.
const unhealthy = 30 * time.Second

func (h *health) seen(now time.Time) { h.last.Store(now.UnixNano()) }

// tried notes how a duty went. It fails since the first error that no success has followed.
func (h *health) tried(what duty, err error, now time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if err == nil {
		delete(h.failing, what)
		return
	}
	if h.failing == nil {
		h.failing = map[duty]failure{}
	}
	f, before := h.failing[what]
	if !before {
		f.since = now
	}
	f.reason = err
	h.failing[what] = f
}

// problem says why the loop is not at work, or what it fails at, "" if all is well. A policy file
// with a mistake is none: what was in force stays.
func (h *health) problem(now time.Time) string {
	last := h.last.Load()
	if last == 0 {
		return "the policy is not in force yet"
	}
	if away := now.Sub(time.Unix(0, last)); away > unhealthy {
		return fmt.Sprintf("nothing was done for %s", away.Round(time.Second))
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, what := range []duty{applying, binding} {
		if f, fails := h.failing[what]; fails && now.Sub(f.since) > unhealthy {
			return fmt.Sprintf("%s for %s: %v", what, now.Sub(f.since).Round(time.Second), f.reason)
		}
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
