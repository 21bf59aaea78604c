// SPDX-License-Identifier: Apache-2.0

package tester

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"time"

	"weir/internal/fault"
	"weir/tester/evidence"
	"weir/tester/session"
)

// testerMetrics serves a running test's counters for Prometheus, as of the last second.
type testerMetrics struct {
	mu     sync.Mutex // guards latest
	latest session.Account
	server *http.Server
}

// serveMetrics listens on a loopback address; "" serves nothing.
func serveMetrics(ctx context.Context, address string) (*testerMetrics, error) {
	if address == "" {
		return nil, nil
	}
	const try = "give a loopback address, such as --metrics 127.0.0.1:9465"
	at, err := netip.ParseAddrPort(address)
	if err != nil || !at.Addr().IsLoopback() {
		return nil, fault.New(fault.Usage, try, "--metrics %q is no loopback address with a port: there is no authentication", address)
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return nil, fault.New(fault.Failed, try, "serve metrics: %w", err)
	}
	m := &testerMetrics{}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /metrics", m.write)
	m.server = &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second}
	go func() { _ = m.server.Serve(listener) }() // ends with close, which is no error
	return m, nil
}

func (m *testerMetrics) write(w http.ResponseWriter, _ *http.Request) {
	m.mu.Lock()
	account := m.latest
	m.mu.Unlock()
	w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
	_ = evidence.Metrics(w, account) // the client has closed
}

// show stores the results of a second.
func (m *testerMetrics) show(account session.Account) {
	if m == nil {
		return
	}
	m.mu.Lock()
	m.latest = account
	m.mu.Unlock()
}

func (m *testerMetrics) close() error {
	if m == nil {
		return nil
	}
	if err := m.server.Close(); err != nil && !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("stop serving metrics: %w", err)
	}
	return nil
}
