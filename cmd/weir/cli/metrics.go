// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"time"

	"weir/internal/fault"
)

func tryMetrics(port int) string {
	return fmt.Sprintf("give a loopback address, such as --metrics 127.0.0.1:%d", port)
}

// CheckMetrics rejects a value of --metrics that is neither "" nor a loopback address with a port.
func CheckMetrics(address string, port int) error {
	at, err := netip.ParseAddrPort(address)
	if address == "" || err == nil && at.Addr().IsLoopback() {
		return nil
	}
	return fault.New(fault.Usage, tryMetrics(port), "--metrics %q is no loopback address with a port: there is no authentication", address)
}

// ServeMetrics serves a handler under /metrics on a loopback address, the flag --metrics, until
// stop. With an empty address it serves nothing. port is a port for the examples of errors. at is
// the listener's address, also for port 0.
func ServeMetrics(ctx context.Context, address string, port int, handler http.Handler) (at string, stop func() error, err error) {
	if address == "" {
		return "", func() error { return nil }, nil
	}
	if err := CheckMetrics(address, port); err != nil {
		return "", nil, err
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return "", nil, fault.New(fault.Failed, tryMetrics(port), "serve metrics: %w", err)
	}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", handler)
	const patience = 10 * time.Second // of a scrape that asks another process
	server := &http.Server{Handler: mux, ReadHeaderTimeout: patience / 2, WriteTimeout: patience}
	go func() { _ = server.Serve(listener) }() // ends with stop, which is no error
	return listener.Addr().String(), func() error {
		if err := server.Close(); err != nil && !errors.Is(err, http.ErrServerClosed) {
			return fmt.Errorf("stop serving metrics: %w", err)
		}
		return nil
	}, nil
}
