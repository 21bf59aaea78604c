// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// health records when the main loop was last active, and which of its duties have failed since
// when. The zero value is a loop that has not started.
type health struct {
	last    atomic.Int64 // ns since 1970
	mu      sync.Mutex
	failing map[duty]failure
}

// duty is a repeated task of the main loop.
type duty string

const (
	applying duty = "the policy file is not active"
	binding  duty = "scopes are not bound"
)

type failure struct {
	since  time.Time
	reason error
}

// unhealthy is the maximum duration of one task, and of repeated failure.
const unhealthy = 30 * time.Second

func (h *health) seen(now time.Time) { h.last.Store(now.UnixNano()) }

// tried records the result of a duty. A duty fails since its first error without a later success.
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

// problem returns why the loop is stuck or failing, or "". A mistake in the policy file is no
// problem: the active policy stays.
func (h *health) problem(now time.Time) string {
	last := h.last.Load()
	if last == 0 {
		return "the policy is not active yet"
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
