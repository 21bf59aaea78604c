// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestHealthFollowsTheLoop(t *testing.T) {
	now := time.Now()
	for _, test := range []struct {
		name string
		last time.Time
		want int
	}{
		{"not begun", time.Time{}, http.StatusServiceUnavailable},
		{"at work", now, http.StatusOK},
		{"stuck", now.Add(-unhealthy - time.Minute), http.StatusServiceUnavailable},
	} {
		var h health
		if !test.last.IsZero() {
			h.seen(test.last)
		}
		answer := httptest.NewRecorder()
		h.ServeHTTP(answer, httptest.NewRequest("GET", "/healthz", nil))
		if answer.Code != test.want {
			t.Errorf("%s: %d %s, want %d", test.name, answer.Code, answer.Body, test.want)
		}
	}
}

// The health endpoint ignores short failures and reports a duty that fails for 40 s.
func TestHealthReportsLastingFailures(t *testing.T) {
	var h health
	began := time.Now()
	for _, step := range []struct {
		after time.Duration
		what  duty
		err   error
		want  string
	}{
		{0, applying, errors.New("no memory"), ""},
		{20 * time.Second, binding, nil, ""},
		{40 * time.Second, applying, errors.New("no room"), "the policy file is not active for 40s: no room"},
		{41 * time.Second, applying, nil, ""},
		{50 * time.Second, binding, errors.New("no cgroup"), ""},
		{90 * time.Second, binding, errors.New("no cgroup"), "scopes are not bound for 40s: no cgroup"},
		{91 * time.Second, binding, nil, ""},
	} {
		now := began.Add(step.after)
		h.seen(now)
		h.tried(step.what, step.err, now)
		if got := h.problem(now); got != step.want {
			t.Errorf("after %s: %q, want %q", step.after, got, step.want)
		}
	}
}

// fails reports whether the last attempt of a duty failed.
func (h *health) fails(what duty) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	_, fails := h.failing[what]
	return fails
}

func TestEveryRouteIsDescribedAndAnswers(t *testing.T) {
	_, client := served(t, oneScope)
	_, text := ask(t, client, "GET", "/openapi.json", "")
	var description struct {
		Paths map[string]map[string]any
	}
	if err := json.Unmarshal(text, &description); err != nil {
		t.Fatal(err)
	}
	want := []string{"/healthz", "/metrics", "/openapi.json", "/openapi.yaml", "/v1/apply", "/v1/metrics", "/v1/plan", "/v1/release", "/v1/status"}
	if got := slices.Sorted(maps.Keys(description.Paths)); !slices.Equal(got, want) {
		t.Errorf("described are %q, want %q", got, want)
	}
	for path, methods := range description.Paths {
		if methods["get"] == nil {
			continue
		}
		if status, text := ask(t, client, "GET", path, ""); status != http.StatusOK {
			t.Errorf("GET %s: %d %s", path, status, text)
		}
	}
}

func TestMetricsOfBuildAndProcess(t *testing.T) {
	s, client := served(t, oneScope)
	_, text := ask(t, client, "GET", "/metrics", "")
	for _, want := range []string{"weir_build_info{", "process_start_time_seconds ", "process_resident_memory_bytes "} {
		if !strings.Contains(string(text), want) {
			t.Errorf("a scrape has no %s", want)
		}
	}
	// node_exporter, the reader of the text file, exports process metrics of its own.
	for name := range metricsOf(t, s.Engine) {
		if strings.HasPrefix(name, "process_") {
			t.Errorf("the text file would have %s", name)
		}
	}
}
