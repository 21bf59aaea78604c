// SPDX-License-Identifier: Apache-2.0

package server

import (
	"cmp"
	"context"
	"net/http"
	"time"

	"weir/measure/session"
)

// drain refuses new tests and returns after the running ones have ended and stored their records.
// It ends tests that take longer than maxDrain, and waits for their records too.
func (s *Server) drain() {
	tests, _, _ := s.gate.Running()
	if s.latency != nil {
		latencyTests, _, _ := s.latencyGate.Running()
		tests += latencyTests
	}
	if tests > 0 {
		s.config.Log.Info("drains: no new tests", "running", tests)
	}
	bulk, latencyTests := s.gate.Drain(), closed()
	if s.latency != nil {
		latencyTests = s.latency.Drain()
	}
	stored := make(chan struct{})
	go func() { <-bulk; <-latencyTests; close(stored) }()
	select {
	case <-stored:
	case <-time.After(cmp.Or(s.config.drainTime, maxDrain)):
		s.endTests()
		select {
		case <-stored:
		case <-time.After(storeTime + session.CloseTime):
		}
	}
}

func closed() <-chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}

// end closes the listeners and connections of clients, after they fetched the results of the last
// latency tests.
func (s *Server) end(site *http.Server) {
	if s.latency != nil {
		select {
		case <-s.latencyGate.Drain():
		case <-time.After(resultTime):
		}
	}
	answered, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = site.Shutdown(answered)
	_ = site.Close()
}
