// SPDX-License-Identifier: Apache-2.0

package server

import (
	"encoding/json"
	"net/http"
	"strconv"

	"weir/measure/admission"
)

// problem is a problem document (RFC 9457).
type problem struct {
	Type   string `json:"type"`
	Title  string `json:"title"`
	Status int    `json:"status"`
	Detail string `json:"detail,omitempty"`
}

func newProblem(status int, title, detail string) problem {
	return problem{Type: "about:blank", Title: title, Status: status, Detail: detail}
}

func (p problem) write(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "application/problem+json")
	writeJSON(w, p.Status, p)
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	if w.Header().Get("Content-Type") == "" {
		w.Header().Set("Content-Type", "application/json")
	}
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v)
}

// refuse sets Retry-After and returns the problem document of a refused test.
func refuse(w http.ResponseWriter, r *admission.Rejection) problem {
	w.Header().Set("Retry-After", strconv.Itoa(int(r.RetryAfter.Seconds())))
	return newProblem(http.StatusTooManyRequests, "The server runs no further test now", r.Detail)
}
