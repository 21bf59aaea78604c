// SPDX-License-Identifier: Apache-2.0

package tester

import (
	"context"
	"net/http"
	"sync"

	"weir/cmd/weir/cli"
	"weir/tester/evidence"
	"weir/tester/session"
)

// testerMetrics serves a running test's counters for Prometheus, as of the last second.
type testerMetrics struct {
	mu     sync.Mutex // guards latest
	latest session.Account
	stop   func() error
}

// serveMetrics listens on a loopback address; "" serves nothing.
func serveMetrics(ctx context.Context, address string) (m *testerMetrics, err error) {
	m = &testerMetrics{}
	_, m.stop, err = cli.ServeMetrics(ctx, address, 9465, m)
	return m, err
}

// ServeHTTP writes the results of the last second.
func (m *testerMetrics) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	m.mu.Lock()
	account := m.latest
	m.mu.Unlock()
	w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
	_ = evidence.Metrics(w, account) // the client has closed
}

// show stores the results of a second.
func (m *testerMetrics) show(account session.Account) {
	m.mu.Lock()
	m.latest = account
	m.mu.Unlock()
}

func (m *testerMetrics) close() error { return m.stop() }
