// SPDX-License-Identifier: Apache-2.0

package server

import (
	"net/http"
	"strings"
)

// authorized verifies the access token of a request for a test of an experiment, and returns its
// ID; "" if the site requires none. It is false after it answered 401 with the reason.
func (s *Server) authorized(w http.ResponseWriter, r *http.Request, experiment string) (id string, ok bool) {
	if s.config.Tokens == nil {
		return "", true
	}
	text, bearer := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if !bearer {
		text = r.URL.Query().Get("access_token")
	}
	id, err := s.config.Tokens.Verify(text, experiment)
	if err != nil {
		s.metrics.refused.WithLabelValues("token").Inc()
		w.Header().Set("WWW-Authenticate", `Bearer error="invalid_token"`)
		newProblem(http.StatusUnauthorized, "The test is not authorized", err.Error()).write(w)
		return "", false
	}
	return id, true
}
