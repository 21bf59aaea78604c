// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"time"
	"weir/core/engine"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"weir/internal/atomicfile"
	"weir/internal/fault"
	"weir/internal/listen"
)

// listener is an open listener and its handler.
type listener struct {
	net.Listener
	handler http.Handler
}

// listen opens the listeners before the policy is applied, so that a wrong address changes nothing.
func (s *Service) listen() (all []listener, err error) {
	// A reading of 10,000 scopes is expensive, so concurrent scrapes share it. A slow reader
	// occupies a place of its own listener only, and for a limited time.
	metrics := newScraper(s.Engine).handler
	if s.Textfile != "" {
		if err := canReplace(s.Textfile); err != nil {
			return nil, fault.New(fault.Usage, "name a file in a folder that is there and may be written, as in --textfile /var/lib/prometheus/node-exporter/weir.prom", "--textfile: %w", err)
		}
	}
	if s.Metrics != "" {
		opened, err := listenLoopback(s.Metrics)
		if err != nil {
			return nil, err
		}
		// Any user may connect: the limit keeps descriptors for the rest of the daemon.
		opened = &limitedListener{Listener: opened, most: maxConnections}
		mux := http.NewServeMux()
		mux.Handle("GET /metrics", metrics())
		mux.Handle("GET /healthz", &s.health)
		all = append(all, listener{opened, mux})
		s.Log.Info("metrics", "url", "http://"+opened.Addr().String()+"/metrics")
	}
	if s.Socket != "" {
		opened, err := listen.Unix("unix", s.Socket)
		if err != nil {
			return nil, errors.Join(engine.NotPermitted(err), closeAll(all))
		}
		all = append(all, listener{opened, s.api(metrics())})
		s.Log.Info("API", "socket", s.Socket)
	}
	return all, nil
}

// maxConnections is the maximum number of connections to the metrics' address.
const maxConnections = 64

// answerTime limits the time of a client to read an answer.
const answerTime = 30 * time.Second

func closeAll(all []listener) error {
	var problems []error
	for _, l := range all {
		problems = append(problems, l.Close())
	}
	return errors.Join(problems...)
}

// answer serves requests, and completes running ones at the end.
func (s *Service) answer(ctx context.Context, work *errgroup.Group, l listener) {
	server := &http.Server{Handler: l.handler, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 30 * time.Second, WriteTimeout: answerTime,
		ErrorLog: slog.NewLogLogger(s.Log.Handler(), slog.LevelWarn)}
	work.Go(func() error {
		if err := server.Serve(l.Listener); err != nil && !errors.Is(err, http.ErrServerClosed) {
			return fmt.Errorf("serve %s: %w", l.Addr(), err)
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

// listenLoopback listens on a loopback address and rejects others: metrics have neither TLS nor
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
	if errors.Is(err, os.ErrPermission) {
		return nil, fault.New(fault.Permission, "write a port above 1023, or run it with CAP_NET_BIND_SERVICE", "listen: %w", err)
	}
	if errors.Is(err, unix.EADDRINUSE) {
		return nil, fault.New(fault.Failed, "name another port with --listen, or end the process that has this one: ss -ltnp 'sport = "+port+"'", "listen: %w", err)
	}
	if err != nil {
		return nil, fault.New(fault.Usage, try, "listen: %w", err)
	}
	return listener, nil
}

// canReplace returns why a file cannot be replaced by a new file in its folder.
func canReplace(path string) error {
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		return fmt.Errorf("%s is no regular file", path)
	}
	beside, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	return errors.Join(beside.Close(), os.Remove(beside.Name()))
}

// writeMetrics replaces the text file atomically. Its error omits the temporary name, so that
// repeated errors are equal.
func (s *Service) writeMetrics() error {
	err := atomicfile.Write(s.Textfile, 0o644, func(w io.Writer) error { return WriteMetrics(s.Engine, w) })
	var path *fs.PathError
	var renamed *os.LinkError
	switch {
	case errors.As(err, &path):
		err = path.Err
	case errors.As(err, &renamed):
		err = renamed.Err
	}
	if err != nil {
		return fmt.Errorf("%s: %w", s.Textfile, err)
	}
	return nil
}
