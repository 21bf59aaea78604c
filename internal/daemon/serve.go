package daemon

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"weir/internal/fault"
)

// serve opens what is to be served and serves it until ctx ends.
func (s *Service) serve(ctx context.Context, work *errgroup.Group) error {
	metrics := promhttp.HandlerFor(s.Engine.Registry(), promhttp.HandlerOpts{})
	if s.Socket != "" {
		listener, err := listenUnix(s.Socket)
		if err != nil {
			return err
		}
		s.answer(ctx, work, listener, s.api(metrics))
		s.Log.Info("API", "socket", s.Socket)
	}
	if s.Metrics != "" {
		listener, err := listenLoopback(s.Metrics)
		if err != nil {
			return err
		}
		mux := http.NewServeMux()
		mux.Handle("GET /metrics", metrics)
		s.answer(ctx, work, listener, mux)
		s.Log.Info("metrics", "url", "http://"+listener.Addr().String()+"/metrics")
	}
	return nil
}

// answer serves requests, and lets those that have begun come to their end.
func (s *Service) answer(ctx context.Context, work *errgroup.Group, listener net.Listener, handler http.Handler) {
	server := &http.Server{Handler: handler, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 30 * time.Second,
		ErrorLog: slog.NewLogLogger(s.Log.Handler(), slog.LevelWarn)}
	work.Go(func() error {
		if err := server.Serve(listener); err != nil && !errors.Is(err, http.ErrServerClosed) {
			return fmt.Errorf("serve %s: %w", listener.Addr(), err)
		}
		return nil
	})
	work.Go(func() error {
		<-ctx.Done()
		end, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		if err := server.Shutdown(end); err != nil {
			return server.Close()
		}
		return nil
	})
}

// listenUnix listens on a socket that its owner alone may use. One that a killed controller has left is replaced.
func listenUnix(path string) (net.Listener, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, notPermitted(fmt.Errorf("listen: %w", err))
	}
	if info, err := os.Lstat(path); err == nil {
		if info.Mode().Type() != fs.ModeSocket {
			return nil, fault.New(fault.Usage, "name another path with --socket", "%s exists and is no socket", path)
		}
		if conn, err := net.Dial("unix", path); err == nil {
			_ = conn.Close()
			return nil, fault.New(fault.Failed, "stop the process that does, or name another path with --socket", "another process listens on %s", path)
		}
		if err := os.Remove(path); err != nil {
			return nil, notPermitted(fmt.Errorf("listen: %w", err))
		}
	}
	// The mode that the socket has before it is bound is the file's, so that nobody gets in between (unix(7)).
	config := net.ListenConfig{Control: func(_, _ string, raw syscall.RawConn) error {
		var chmod error
		if err := raw.Control(func(fd uintptr) { chmod = unix.Fchmod(int(fd), 0o600) }); err != nil {
			return err
		}
		return chmod
	}}
	listener, err := config.Listen(context.Background(), "unix", path)
	if err != nil {
		return nil, notPermitted(fmt.Errorf("listen: %w", err))
	}
	return listener, nil
}

// listenLoopback listens on an address of the loopback device, and refuses every other: there is no TLS here yet, and no
// authentication.
func listenLoopback(address string) (net.Listener, error) {
	const try = "write --listen 127.0.0.1:9464 or [::1]:9464, and put a proxy with TLS and authentication before it"
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, fault.New(fault.Usage, try, "--listen %q is no address and port: %w", address, err)
	}
	if host == "localhost" {
		host = "127.0.0.1"
	}
	ip, err := netip.ParseAddr(host)
	if err != nil || !ip.Unmap().IsLoopback() {
		return nil, fault.New(fault.Usage, try, "--listen %s is beyond loopback: metrics are served without TLS and authentication", address)
	}
	listener, err := net.Listen("tcp", net.JoinHostPort(host, port))
	if err != nil {
		return nil, notPermitted(fmt.Errorf("listen: %w", err))
	}
	return listener, nil
}

// writeMetrics replaces the text file as a whole.
func (s *Service) writeMetrics() error {
	return prometheus.WriteToTextfile(s.Textfile, s.Engine.Registry())
}
